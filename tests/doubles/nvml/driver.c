/* Stands in for libnvidia-ml.so.1 below the real pynvml.
 *
 * Every answer is read, at the moment of the call, from the text file that NVML_DOUBLE names: lines of
 * "key value". A value "!N" makes the call that reads it return NVML's error N; a key that is missing
 * returns NOT_SUPPORTED. A test changes what the driver says by writing the file anew; so does a program
 * that creates or destroys MIG instances (mig.h).
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  SUCCESS = 0,
  INVALID_ARGUMENT = 2,
  NOT_SUPPORTED = 3,
  NO_PERMISSION = 4,
  NOT_FOUND = 6,
  INSUFFICIENT_SIZE = 7,
  LIBRARY_NOT_FOUND = 12,
  IN_USE = 19,
  INSUFFICIENT_RESOURCES = 23,
};
enum { GPUS = 16, INSTANCES = 64, LINE = 512 };

/* What a handle points to: a GPU, or one of its MIG devices. */
typedef struct {
  int gpu;
  int instance; /* -1: the GPU itself */
} Device;
static Device devices[GPUS][INSTANCES + 1];

static Device *device_of(int gpu, int instance) {
  Device *device = &devices[gpu][instance + 1];
  device->gpu = gpu;
  device->instance = instance;
  return device;
}

/* The value of a key as text, or the error that stands for it. */
static int lookup(char *value, const char *key) {
  const char *path = getenv("NVML_DOUBLE");
  FILE *file = path ? fopen(path, "r") : NULL;
  char line[LINE];
  size_t length = strlen(key);
  int result = NOT_SUPPORTED;
  if (!file) return LIBRARY_NOT_FOUND;
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, key, length) != 0 || line[length] != ' ') continue;
    line[strcspn(line, "\n")] = 0;
    strcpy(value, line + length + 1);
    result = value[0] == '!' ? atoi(value + 1) : SUCCESS;
    break;
  }
  fclose(file);
  return result;
}

static int text(char *value, const char *format, ...) {
  char key[LINE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(key, sizeof key, format, arguments);
  va_end(arguments);
  return lookup(value, key);
}

/* A value of one device: its key is "gpu.N.name", or "gpu.N.mig.M.name". */
static int device_text(const Device *device, const char *name, char *value) {
  if (!device) return INVALID_ARGUMENT;
  return device->instance < 0 ? text(value, "gpu.%d.%s", device->gpu, name)
                              : text(value, "gpu.%d.mig.%d.%s", device->gpu, device->instance, name);
}

static int device_number(const Device *device, const char *name, unsigned long long *number) {
  char value[LINE];
  int result = device_text(device, name, value);
  if (result == SUCCESS) *number = strtoull(value, NULL, 0);
  return result;
}

static int device_unsigned(const Device *device, const char *name, unsigned *number) {
  unsigned long long wide = 0;
  int result = device_number(device, name, &wide);
  if (result == SUCCESS) *number = (unsigned)wide;
  return result;
}

static int copied(int result, const char *value, char *target, unsigned size) {
  if (result != SUCCESS) return result;
  if (strlen(value) + 1 > size) return INSUFFICIENT_SIZE;
  strcpy(target, value);
  return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) {
  char value[LINE];
  int result = text(value, "init");
  (void)flags;
  return result == NOT_SUPPORTED ? SUCCESS : result;
}
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int result) {
  switch (result) {
    case SUCCESS: return "Success";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case IN_USE: return "In use by another client";
    case INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    default: return "an error of the double";
  }
}

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
  char value[LINE];
  return copied(text(value, "driver"), value, version, size);
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) {
  char value[LINE];
  int result = text(value, "cuda");
  if (result == SUCCESS) *version = atoi(value);
  return result;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
  char value[LINE];
  int result = text(value, "gpus");
  if (result == SUCCESS) *count = (unsigned)atoi(value);
  return result;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
  char value[LINE];
  unsigned count = 0;
  int result = nvmlDeviceGetCount_v2(&count);
  if (result != SUCCESS) return result;
  if (index >= count || index >= GPUS) return INVALID_ARGUMENT;
  result = text(value, "gpu.%u.handle", index); /* a lost card has an error here */
  if (result != SUCCESS && result != NOT_SUPPORTED) return result;
  *device = device_of((int)index, -1);
  return SUCCESS;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Device **device) {
  char value[LINE];
  for (int gpu = 0; gpu < GPUS; gpu++) {
    for (int instance = -1; instance < INSTANCES; instance++) {
      Device *candidate = device_of(gpu, instance);
      if (device_text(candidate, "uuid", value) == SUCCESS && strcmp(value, uuid) == 0) {
        *device = candidate;
        return SUCCESS;
      }
    }
  }
  return NOT_FOUND;
}
int nvmlDeviceGetUUID(const Device *device, char *uuid, unsigned size) {
  char value[LINE];
  return copied(device_text(device, "uuid", value), value, uuid, size);
}
int nvmlDeviceGetName(const Device *device, char *name, unsigned size) {
  char value[LINE];
  return copied(device_text(device, "name", value), value, name, size);
}
int nvmlDeviceGetCudaComputeCapability(const Device *device, int *major, int *minor) {
  char value[LINE];
  int result = device_text(device, "capability", value);
  if (result == SUCCESS && sscanf(value, "%d.%d", major, minor) != 2) return INVALID_ARGUMENT;
  return result;
}
int nvmlDeviceGetNumGpuCores(const Device *device, unsigned *count) {
  return device_unsigned(device, "cores", count);
}
int nvmlDeviceGetComputeMode(const Device *device, unsigned *mode) {
  return device_unsigned(device, "compute_mode", mode);
}
int nvmlDeviceGetPersistenceMode(const Device *device, unsigned *mode) {
  return device_unsigned(device, "persistence", mode);
}
int nvmlDeviceGetMigMode(const Device *device, unsigned *current, unsigned *pending) {
  int result = device_unsigned(device, "mig_mode", current);
  if (result != SUCCESS) return result;
  if (device_unsigned(device, "mig_mode_pending", pending) != SUCCESS) *pending = *current;
  return SUCCESS;
}
int nvmlDeviceGetClockInfo(const Device *device, unsigned kind, unsigned *clock) {
  return device_unsigned(device, kind == 1 ? "clock.sm" : "clock.memory", clock);
}
int nvmlDeviceGetMaxClockInfo(const Device *device, unsigned kind, unsigned *clock) {
  return device_unsigned(device, kind == 1 ? "clock.sm.most" : "clock.memory.most", clock);
}
int nvmlDeviceGetCurrentClocksEventReasons(const Device *device, unsigned long long *reasons) {
  return device_number(device, "clock.reasons", reasons);
}
int nvmlDeviceGetTotalEccErrors(const Device *device, unsigned kind, unsigned counter,
                                unsigned long long *count) {
  (void)counter;
  return device_number(device, kind == 1 ? "ecc.uncorrected" : "ecc.corrected", count);
}
int nvmlDeviceGetEccMode(const Device *device, unsigned *current, unsigned *pending) {
  int result = device_unsigned(device, "ecc", current);
  if (result == SUCCESS) *pending = *current;
  return result;
}

typedef struct {
  unsigned long long total, free, used;
} Memory;
int nvmlDeviceGetMemoryInfo(const Device *device, Memory *memory) {
  int result = device_number(device, "memory", &memory->total);
  if (result != SUCCESS) return result;
  memory->used = 0;
  device_number(device, "memory.used", &memory->used);
  memory->free = memory->total - memory->used;
  return SUCCESS;
}

typedef struct {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
} Process;
/* "PID:BYTES PID:BYTES"; BYTES "-" is what the driver would not tell. */
static int processes(const Device *device, const char *name, unsigned *count, Process *found) {
  char value[LINE], *rest = NULL;
  unsigned seen = 0, room = *count;
  int result = device_text(device, name, value);
  if (result == NOT_SUPPORTED) value[0] = 0; /* nobody */
  else if (result != SUCCESS) return result;
  for (char *word = strtok_r(value, " ", &rest); word; word = strtok_r(NULL, " ", &rest), seen++) {
    char *bytes = strchr(word, ':');
    if (!found || seen >= room) continue;
    found[seen].pid = (unsigned)atoi(word);
    found[seen].used_memory = bytes && bytes[1] != '-' ? strtoull(bytes + 1, NULL, 0) : ~0ULL;
    found[seen].gpu_instance = found[seen].compute_instance = ~0U;
  }
  *count = seen;
  return seen > (found ? room : 0) ? INSUFFICIENT_SIZE : SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(const Device *device, unsigned *count, Process *found) {
  return processes(device, "processes", count, found);
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(const Device *device, unsigned *count,
                                               Process *found) {
  return processes(device, "mps_processes", count, found);
}

/* One translation unit: what is in there reads and writes the same file. */
#include "mig.h"
