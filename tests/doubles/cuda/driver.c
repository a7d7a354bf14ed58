/* Stands in for libcuda.so.1: as much of the CUDA driver as says which device a process got, and how much
 * of it. Devices are those of the double of NVML's library (the file NVML_DOUBLE names). A daemon in
 * CUDA_MPS_PIPE_DIRECTORY is called on as the driver does, in cuInit; where nobody listens the process has
 * the whole GPU, in silence. CUDA_DOUBLE_DEAF makes it so even where somebody does.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101 };
enum { DEVICES = 16, LINE = 512 };
enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76 };

typedef struct {
  char uuid[96];
  char prefix[32]; /* "gpu.0", "gpu.0.mig.2": of its keys */
  int gpu;
} Device;

static Device devices[DEVICES];
static int count = -1;
static int line_to_daemon = -1;
static int limited_sms;
static int ended; /* what the daemon said last, an error that stays */

static int lookup(char *value, const char *prefix, const char *name) {
  const char *path = getenv("NVML_DOUBLE");
  FILE *file = path ? fopen(path, "r") : NULL;
  char line[LINE], key[LINE];
  int found = 0;
  if (!file) return 0;
  snprintf(key, sizeof key, "%s%s%s ", prefix, *prefix ? "." : "", name);
  while (!found && fgets(line, sizeof line, file)) {
    if (strncmp(line, key, strlen(key)) != 0) continue;
    line[strcspn(line, "\n")] = 0;
    strcpy(value, line + strlen(key));
    found = value[0] != '!';
  }
  fclose(file);
  return found;
}
static long number(const char *prefix, const char *name, long otherwise) {
  char value[LINE];
  return lookup(value, prefix, name) ? strtol(value, NULL, 0) : otherwise;
}

static void add(const char *word, int one_instance) {
  char value[LINE], prefix[32];
  for (int gpu = 0; gpu < DEVICES && count < DEVICES; gpu++) {
    snprintf(prefix, sizeof prefix, "gpu.%d", gpu);
    if (!lookup(value, prefix, "uuid")) continue;
    int whole = !word || strncmp(value, word, strlen(word)) == 0 ||
                (word[0] >= '0' && word[0] <= '9' && atoi(word) == gpu);
    if (whole && !number(prefix, "mig_mode", 0)) {
      snprintf(devices[count].uuid, sizeof devices[count].uuid, "%s", value);
      snprintf(devices[count].prefix, sizeof devices[count].prefix, "%s", prefix);
      devices[count++].gpu = gpu;
      continue;
    }
    for (int instance = 0; instance < 64 && count < DEVICES; instance++) {
      snprintf(prefix, sizeof prefix, "gpu.%d.mig.%d", gpu, instance);
      if (!lookup(value, prefix, "uuid")) continue;
      if (!whole && !(word && strncmp(value, word, strlen(word)) == 0)) continue;
      snprintf(devices[count].uuid, sizeof devices[count].uuid, "%s", value);
      snprintf(devices[count].prefix, sizeof devices[count].prefix, "%s", prefix);
      devices[count++].gpu = gpu;
      if (one_instance) break; /* CUDA enumerates one */
    }
  }
}

static int hello(void) {
  const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
  const char *percent = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  const char *partition = getenv("CUDA_MPS_SM_PARTITION");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char said[LINE];
  if (getenv("CUDA_DOUBLE_DEAF")) return SUCCESS;
  snprintf(address.sun_path, sizeof address.sun_path, "%s/control", pipe ? pipe : "/tmp/nvidia-mps");
  line_to_daemon = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(line_to_daemon, (struct sockaddr *)&address, sizeof address) != 0) {
    close(line_to_daemon);
    line_to_daemon = -1;
    return SUCCESS; /* no MPS: the whole GPU, in silence */
  }
  snprintf(said, sizeof said, "HELLO %d %d %s %s\n", getpid(), getuid(), percent ? percent : "100",
           partition ? partition : "-");
  if (write(line_to_daemon, said, strlen(said)) < 0) return 805;
  ssize_t length = read(line_to_daemon, said, sizeof said - 1);
  if (length <= 0) return 805;
  said[length] = 0;
  if (sscanf(said, "OK %d", &limited_sms) == 1) return SUCCESS;
  return sscanf(said, "ERROR %d", &ended) == 1 ? ended : 805;
}

/* An error that came meanwhile: this client was ended, or another one faulted. */
static int news(void) {
  struct pollfd wait = {.fd = line_to_daemon, .events = POLLIN};
  char said[LINE];
  if (ended || line_to_daemon < 0) return ended;
  if (poll(&wait, 1, 0) > 0) {
    ssize_t length = read(line_to_daemon, said, sizeof said - 1);
    if (length <= 0) return ended = 806;
    said[length] = 0;
    sscanf(said, "ERROR %d", &ended);
  }
  return ended;
}

int cuInit(unsigned flags) {
  (void)flags;
  if (count >= 0) return news();
  char value[LINE];
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (!getenv("NVML_DOUBLE")) return NO_DEVICE;
  long forced = number("", "cuda.init", 0);
  if (forced) return (int)forced;
  count = 0;
  if (!visible) {
    add(NULL, 1);
  } else {
    char words[LINE], *rest = NULL;
    snprintf(words, sizeof words, "%s", visible);
    for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
      int before = count;
      add(word, 1);
      if (count == before) break;
    }
  }
  (void)value;
  if (!count) return NO_DEVICE;
  return hello();
}
int cuDriverGetVersion(int *version) {
  *version = (int)number("", "cuda", 13000);
  return SUCCESS;
}
int cuDeviceGetCount(int *found) {
  if (count < 0) return NOT_INITIALIZED;
  *found = count;
  return SUCCESS;
}
int cuDeviceGet(int *device, int ordinal) {
  if (ordinal < 0 || ordinal >= count) return INVALID_DEVICE;
  *device = ordinal;
  return SUCCESS;
}
int cuDeviceGetName(char *name, int size, int device) {
  char prefix[32], value[LINE] = "GPU";
  snprintf(prefix, sizeof prefix, "gpu.%d", devices[device].gpu);
  lookup(value, prefix, "name");
  snprintf(name, (size_t)size, "%s", value);
  return SUCCESS;
}
/* The 16 bytes after "GPU-" or "MIG-"; what is no hexadecimal digit is left out. */
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
  unsigned digits = 0;
  memset(uuid, 0, 16);
  for (const char *c = devices[device].uuid + 4; *c && digits < 32; c++) {
    const char *all = "0123456789abcdef", *at = strchr(all, *c);
    if (*c == '-' || !at) continue;
    uuid[digits / 2] = (unsigned char)(uuid[digits / 2] << 4 | (at - all));
    digits++;
  }
  return SUCCESS;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  long megabytes = number(devices[device].prefix, "memory_mb", 0);
  *bytes = megabytes ? (size_t)megabytes << 20 : (size_t)number(devices[device].prefix, "memory", 0);
  return SUCCESS;
}
/* What an H100 answers; attribute.N of the machine's file says otherwise. */
static long usual(int attribute) {
  switch (attribute) {
    case 1: return 1024;      /* threads of a block */
    case 10: return 32;       /* of a warp */
    case 13: return 1830000;  /* kilohertz */
    case 36: return 2619000;  /* kilohertz of the memory */
    case 37: return 5120;     /* bits of its bus */
    case 38: return 52428800; /* bytes of L2 */
    case 39: return 2048;     /* threads of an SM */
    case 81: return 233472;   /* bytes of shared memory of an SM */
    case 82: return 65536;    /* its registers */
    case 97: return 232448;   /* bytes of shared memory that a block can opt in to */
    case 106: return 32;      /* blocks of an SM */
    default: return 0;
  }
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  char prefix[32], name[32], text[LINE];
  int major = 9, minor = 0;
  snprintf(prefix, sizeof prefix, "gpu.%d", devices[device].gpu);
  if (lookup(text, prefix, "capability")) sscanf(text, "%d.%d", &major, &minor);
  switch (attribute) {
    case MULTIPROCESSORS: {
      long whole = number(devices[device].prefix, "sms", number(prefix, "cores", 0) / 128);
      *value = limited_sms ? limited_sms : (int)whole;
      return SUCCESS;
    }
    case MAJOR: *value = major; return SUCCESS;
    case MINOR: *value = minor; return SUCCESS;
    default:
      snprintf(name, sizeof name, "attribute.%d", attribute);
      *value = (int)number(prefix, name, usual(attribute));
      return SUCCESS;
  }
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  static int anchor;
  *context = &anchor;
  /* EXCLUSIVE_PROCESS, and an MPS server has it. */
  if (line_to_daemon < 0 && number(devices[device].prefix, "held", 0)) return 46;
  return news();
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  return news();
}
int cuCtxSetCurrent(void *context) {
  (void)context;
  return news();
}
int cuCtxSynchronize(void) { return news(); }
int cuGetErrorName(int error, const char **name) {
  switch (error) {
    case 2: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case 46: *name = "CUDA_ERROR_DEVICE_UNAVAILABLE"; break;
    case NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; break;
    case 205: *name = "CUDA_ERROR_MAP_FAILED"; break;
    case 719: *name = "CUDA_ERROR_LAUNCH_FAILED"; break;
    case 805: *name = "CUDA_ERROR_MPS_CONNECTION_FAILED"; break;
    case 806: *name = "CUDA_ERROR_MPS_RPC_FAILURE"; break;
    case 807: *name = "CUDA_ERROR_MPS_SERVER_NOT_READY"; break;
    case 808: *name = "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"; break;
    case 809: *name = "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED"; break;
    case 810: *name = "CUDA_ERROR_MPS_CLIENT_TERMINATED"; break;
    default: *name = "CUDA_ERROR_UNKNOWN";
  }
  return error == INVALID_VALUE ? INVALID_VALUE : SUCCESS;
}
