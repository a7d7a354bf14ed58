// Kernels of the on-device check; `check.py prepare` compiles them for each architecture. No header is needed.

typedef unsigned long long u64;

// Which SM each block runs on. A block stays for a while: else one quick SM could take them all.
extern "C" __global__ void __launch_bounds__(1024) roll_call(unsigned* smids, u64 cycles) {
  long long start = clock64();
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  if (threadIdx.x == 0) smids[blockIdx.x] = id;
  while (clock64() - start < (long long)cycles) {
  }
}

// The deliberate fault: `where` is an address that nobody was given.
extern "C" __global__ void bad_address(unsigned* where) { where[threadIdx.x] = 1u; }

// Bound by arithmetic: eight chains of multiply-adds a thread that do not wait for each other.
extern "C" __global__ void __launch_bounds__(256) arithmetic(float* out, int steps) {
  float factor = 0.999f, term = 1e-3f * (float)(threadIdx.x + 1);
  float sums[8];
#pragma unroll
  for (int i = 0; i < 8; i++) sums[i] = (float)i;
#pragma unroll 16
  for (int step = 0; step < steps; step++) {
#pragma unroll
    for (int i = 0; i < 8; i++) sums[i] = sums[i] * factor + term;
  }
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; i++) total += sums[i];
  out[(u64)blockIdx.x * blockDim.x + threadIdx.x] = total;
}

// Bound by memory: each byte once, between buffers far larger than L2.
extern "C" __global__ void __launch_bounds__(512) stream(const float4* in, float4* out, u64 count) {
  u64 step = (u64)gridDim.x * blockDim.x;
#pragma unroll 4
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) out[i] = in[i];
}

// Bound by L2: a few megabytes again and again, past L1, by other threads in each round.
extern "C" __global__ void __launch_bounds__(512) resident(const float4* in, float* out, u64 count, int rounds) {
  u64 step = (u64)gridDim.x * blockDim.x;
  u64 place = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  float total = 0.0f;
  for (int round = 0; round < rounds; round++) {
#pragma unroll 4
    for (u64 i = place; i < count; i += step) {
      float x, y, z, w;
      asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
                   : "l"(in + i));
      total += (x + y) + (z + w);
    }
    place = (place + 17 * blockDim.x) % step;
  }
  out[(u64)blockIdx.x * blockDim.x + threadIdx.x] = total;
}

// Matrix products by tiles: c (m, n) = a (m, k) b (k, n), row by row; sizes are multiples of the tile's.
// A block makes TILE_M x TILE_N of them, a thread OWN_M x OWN_N.
template <int TILE_M, int TILE_N, int DEPTH, int OWN_M, int OWN_N>
__device__ __forceinline__ void product(const float* a, const float* b, float* c, int n, int k) {
  constexpr int ROWS = TILE_M / OWN_M, COLUMNS = TILE_N / OWN_N, THREADS = ROWS * COLUMNS;
  __shared__ float left[DEPTH][TILE_M + 4];
  __shared__ float right[DEPTH][TILE_N];
  const int first_row = blockIdx.y * TILE_M, first_column = blockIdx.x * TILE_N;
  const int row = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
  float sums[OWN_M][OWN_N] = {};
  for (int start = 0; start < k; start += DEPTH) {
    for (int i = threadIdx.x; i < TILE_M * DEPTH; i += THREADS)
      left[i % DEPTH][i / DEPTH] = a[(u64)(first_row + i / DEPTH) * k + start + i % DEPTH];
    for (int i = threadIdx.x; i < DEPTH * TILE_N; i += THREADS)
      right[i / TILE_N][i % TILE_N] = b[(u64)(start + i / TILE_N) * n + first_column + i % TILE_N];
    __syncthreads();
#pragma unroll
    for (int step = 0; step < DEPTH; step++) {
      float x[OWN_M], y[OWN_N];
#pragma unroll
      for (int i = 0; i < OWN_M; i++) x[i] = left[step][row * OWN_M + i];
#pragma unroll
      for (int j = 0; j < OWN_N; j++) y[j] = right[step][column + j * COLUMNS];
#pragma unroll
      for (int i = 0; i < OWN_M; i++)
#pragma unroll
        for (int j = 0; j < OWN_N; j++) sums[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < OWN_M; i++)
#pragma unroll
    for (int j = 0; j < OWN_N; j++)
      c[(u64)(first_row + row * OWN_M + i) * n + first_column + column + j * COLUMNS] = sums[i][j];
}

#define PRODUCT(TILE_M, TILE_N, OWN_M, OWN_N)                                                    \
  extern "C" __global__ void __launch_bounds__((TILE_M / OWN_M) * (TILE_N / OWN_N))              \
      product_##TILE_M##x##TILE_N##_##OWN_M##x##OWN_N(const float* a, const float* b, float* c,  \
                                                      int n, int k) {                            \
    product<TILE_M, TILE_N, 16, OWN_M, OWN_N>(a, b, c, n, k);                                    \
  }

PRODUCT(32, 32, 2, 2)
PRODUCT(64, 64, 4, 4)
PRODUCT(64, 64, 8, 8)
PRODUCT(128, 64, 8, 4)
PRODUCT(128, 128, 8, 8)
