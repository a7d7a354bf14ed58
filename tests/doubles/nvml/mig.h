/* MIG in the double of NVML: part of driver.c.
 *
 * What exists stands in the file of NVML_DOUBLE, so that other processes see what one creates:
 *   gpu.N.profile.K.{id,name,slices,sms,memory_mb,most}   a kind of instance, K as NVML numbers kinds
 *   gpu.N.profile.K.placements 0:4 4:4                     where it may lie (start:size)
 *   gpu.N.gi.G.{profile_id,start,size}                     a GPU instance
 *   gpu.N.mig.M.{uuid,gi,ci,sms,…}                         a MIG device: a compute instance in one
 * Who may: gpu.N.mig.read for lists, gpu.N.mig.create for the rest, gpu.N.mig.create_ci and
 * gpu.N.mig.destroy for those alone; "!4" is the error that the call gets. What was done is told, a line
 * each, in a file beside it (".log").
 */

typedef struct {
  unsigned start, size;
} Placement;
typedef struct {
  int gpu, id;
} GpuInstance;
/* The one compute instance of a GPU instance. */
typedef struct {
  GpuInstance *of;
  unsigned profile;
} ComputeInstance;

static GpuInstance gpu_instances[GPUS][INSTANCES];
static ComputeInstance compute_instances[GPUS][INSTANCES];
/* Compute slices of the kinds of compute instances, as NVML numbers them; 0: not of these GPUs. */
static const unsigned compute_kinds[] = {1, 2, 3, 4, 7};
enum { COMPUTE_KINDS = sizeof compute_kinds / sizeof *compute_kinds };

/* ---- the file ---- */

static void tell(const char *format, ...) {
  char path[LINE];
  va_list arguments;
  snprintf(path, sizeof path, "%s.log", getenv("NVML_DOUBLE"));
  FILE *file = fopen(path, "a");
  if (!file) return;
  va_start(arguments, format);
  vfprintf(file, format, arguments);
  va_end(arguments);
  fclose(file);
}
static FILE *open_to_add(void) { return fopen(getenv("NVML_DOUBLE"), "a"); }

/* Leaves out all keys below a prefix. */
static int forget(const char *prefix) {
  const char *path = getenv("NVML_DOUBLE");
  char fresh[LINE], line[LINE];
  size_t length = strlen(prefix);
  snprintf(fresh, sizeof fresh, "%s.fresh", path);
  FILE *from = fopen(path, "r"), *to = fopen(fresh, "w");
  if (!from || !to) return NO_PERMISSION;
  while (fgets(line, sizeof line, from))
    if (strncmp(line, prefix, length) != 0 || line[length] != '.') fputs(line, to);
  fclose(from);
  fclose(to);
  return rename(fresh, path) == 0 ? SUCCESS : NO_PERMISSION;
}

static int may(int gpu, const char *what) {
  char value[LINE];
  unsigned mode = 0;
  device_unsigned(device_of(gpu, -1), "mig_mode", &mode);
  if (!mode) return NOT_SUPPORTED;
  int result = text(value, "gpu.%d.mig.%s", gpu, what);
  return result == NOT_SUPPORTED ? SUCCESS : result;
}
static int profile_unsigned(int gpu, unsigned profile, const char *name, unsigned *number) {
  char value[LINE];
  int result = text(value, "gpu.%d.profile.%u.%s", gpu, profile, name);
  if (result == SUCCESS) *number = (unsigned)atoi(value);
  return result;
}
static int profile_of(int gpu, unsigned id, unsigned *profile) {
  for (*profile = 0; *profile < 32; (*profile)++) {
    unsigned found;
    if (profile_unsigned(gpu, *profile, "id", &found) == SUCCESS && found == id) return SUCCESS;
  }
  return INVALID_ARGUMENT;
}
static unsigned placements_of(int gpu, unsigned profile, Placement *found) {
  char value[LINE], *rest = NULL;
  unsigned count = 0;
  if (text(value, "gpu.%d.profile.%u.placements", gpu, profile) != SUCCESS) return 0;
  for (char *word = strtok_r(value, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
    if (sscanf(word, "%u:%u", &found[count].start, &found[count].size) == 2) count++;
  return count;
}
static int instance_unsigned(int gpu, int id, const char *name, unsigned *number) {
  char value[LINE];
  int result = text(value, "gpu.%d.gi.%d.%s", gpu, id, name);
  if (result == SUCCESS) *number = (unsigned)atoi(value);
  return result;
}
/* The index of the MIG device of a GPU instance; -1 if it has no compute instance. */
static int mig_index(int gpu, int instance) {
  for (int index = 0; index < INSTANCES; index++) {
    unsigned id;
    if (device_unsigned(device_of(gpu, index), "gi", &id) == SUCCESS && (int)id == instance)
      return index;
  }
  return -1;
}
static int is_free(int gpu, Placement wanted) {
  for (int id = 0; id < INSTANCES; id++) {
    Placement taken;
    if (instance_unsigned(gpu, id, "start", &taken.start) != SUCCESS) continue;
    if (instance_unsigned(gpu, id, "size", &taken.size) != SUCCESS) continue;
    if (wanted.start < taken.start + taken.size && taken.start < wanted.start + wanted.size) return 0;
  }
  return 1;
}
static unsigned count_left(int gpu, unsigned profile) {
  Placement all[INSTANCES];
  unsigned count = 0, end = 0, most = 0, id = 0, other;
  profile_unsigned(gpu, profile, "most", &most);
  profile_unsigned(gpu, profile, "id", &id);
  for (int used = 0; used < INSTANCES; used++)
    if (instance_unsigned(gpu, used, "profile_id", &other) == SUCCESS && other == id && most) most--;
  for (unsigned each = 0, total = placements_of(gpu, profile, all); each < total; each++) {
    if (all[each].start < end || !is_free(gpu, all[each])) continue;
    end = all[each].start + all[each].size;
    count++;
  }
  return count < most ? count : most;
}

/* ---- what exists ---- */

int nvmlDeviceGetMaxMigDeviceCount(const Device *device, unsigned *count) {
  return device_unsigned(device, "mig.most", count);
}
int nvmlDeviceGetMigDeviceHandleByIndex(const Device *device, unsigned index, Device **instance) {
  char value[LINE];
  if (index >= INSTANCES) return INVALID_ARGUMENT;
  int result = text(value, "gpu.%d.mig.%u.uuid", device->gpu, index);
  if (result == NOT_SUPPORTED) return NOT_FOUND; /* a hole */
  if (result != SUCCESS) return result;
  *instance = device_of(device->gpu, (int)index);
  return SUCCESS;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(const Device *instance, Device **device) {
  if (instance->instance < 0) return INVALID_ARGUMENT;
  *device = device_of(instance->gpu, -1);
  return SUCCESS;
}
int nvmlDeviceGetGpuInstanceId(const Device *device, unsigned *id) {
  return device_unsigned(device, "gi", id);
}
int nvmlDeviceGetComputeInstanceId(const Device *device, unsigned *id) {
  return device_unsigned(device, "ci", id);
}

typedef struct {
  unsigned multiprocessors, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
  unsigned long long memory_mb;
} Attributes;
int nvmlDeviceGetAttributes_v2(const Device *device, Attributes *attributes) {
  memset(attributes, 0, sizeof *attributes);
  int result = device_unsigned(device, "sms", &attributes->multiprocessors);
  if (result != SUCCESS) return result;
  device_unsigned(device, "slices", &attributes->gpu_slices);
  device_unsigned(device, "compute_slices", &attributes->compute_slices);
  device_number(device, "memory_mb", &attributes->memory_mb);
  return SUCCESS;
}

/* ---- what can be created ---- */

typedef struct {
  unsigned version, id, peer, slices, most, multiprocessors, copy, decoders, encoders, jpeg, ofa;
  unsigned long long memory_mb;
  char name[96];
} Profile;
int nvmlDeviceGetGpuInstanceProfileInfoV(const Device *device, unsigned profile, Profile *info) {
  char value[LINE];
  unsigned memory = 0;
  int result = profile_unsigned(device->gpu, profile, "id", &info->id);
  if (result != SUCCESS) return result;
  profile_unsigned(device->gpu, profile, "slices", &info->slices);
  profile_unsigned(device->gpu, profile, "sms", &info->multiprocessors);
  profile_unsigned(device->gpu, profile, "most", &info->most);
  profile_unsigned(device->gpu, profile, "memory_mb", &memory);
  info->memory_mb = memory;
  if ((result = text(value, "gpu.%d.profile.%u.name", device->gpu, profile)) != SUCCESS) return result;
  snprintf(info->name, sizeof info->name, "MIG %s", value);
  return SUCCESS;
}
int nvmlDeviceGetGpuInstanceRemainingCapacity(const Device *device, unsigned id, unsigned *count) {
  unsigned profile;
  int result = may(device->gpu, "read");
  if (result == SUCCESS) result = profile_of(device->gpu, id, &profile);
  if (result == SUCCESS) *count = count_left(device->gpu, profile);
  return result;
}
/* All of them, also those that are taken. */
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(const Device *device, unsigned id,
                                                  Placement *placements, unsigned *count) {
  Placement all[INSTANCES];
  unsigned profile, room = *count;
  int result = may(device->gpu, "read");
  if (result == SUCCESS) result = profile_of(device->gpu, id, &profile);
  if (result != SUCCESS) return result;
  *count = placements_of(device->gpu, profile, all);
  if (!placements) return SUCCESS;
  if (*count > room) return INSUFFICIENT_SIZE;
  memcpy(placements, all, *count * sizeof *all);
  return SUCCESS;
}
int nvmlDeviceGetGpuInstances(const Device *device, unsigned id, GpuInstance **found,
                              unsigned *count) {
  unsigned other, seen = 0;
  int result = may(device->gpu, "read");
  if (result != SUCCESS) return result;
  for (int each = 0; each < INSTANCES; each++) {
    if (instance_unsigned(device->gpu, each, "profile_id", &other) != SUCCESS || other != id) continue;
    gpu_instances[device->gpu][each] = (GpuInstance){device->gpu, each};
    found[seen++] = &gpu_instances[device->gpu][each];
  }
  *count = seen;
  return SUCCESS;
}
int nvmlDeviceGetGpuInstanceById(const Device *device, unsigned id, GpuInstance **instance) {
  unsigned profile;
  int result = may(device->gpu, "read");
  if (result != SUCCESS) return result;
  if (id >= INSTANCES || instance_unsigned(device->gpu, (int)id, "profile_id", &profile) != SUCCESS)
    return NOT_FOUND;
  gpu_instances[device->gpu][id] = (GpuInstance){device->gpu, (int)id};
  *instance = &gpu_instances[device->gpu][id];
  return SUCCESS;
}

typedef struct {
  Device *device;
  unsigned id, profile_id;
  Placement placement;
} GpuInstanceInfo;
int nvmlGpuInstanceGetInfo(const GpuInstance *instance, GpuInstanceInfo *info) {
  if (instance_unsigned(instance->gpu, instance->id, "profile_id", &info->profile_id) != SUCCESS)
    return NOT_FOUND; /* a stale handle */
  instance_unsigned(instance->gpu, instance->id, "start", &info->placement.start);
  instance_unsigned(instance->gpu, instance->id, "size", &info->placement.size);
  info->device = device_of(instance->gpu, -1);
  info->id = (unsigned)instance->id;
  return SUCCESS;
}

typedef struct {
  unsigned version, id, slices, most, multiprocessors, copy, decoders, encoders, jpeg, ofa;
  char name[96];
} ComputeProfile;
static int compute_profile(const GpuInstance *instance, unsigned kind, ComputeProfile *info) {
  unsigned id, profile, all = 0, sms = 0;
  if (instance_unsigned(instance->gpu, instance->id, "profile_id", &id) != SUCCESS) return NOT_FOUND;
  if (profile_of(instance->gpu, id, &profile) != SUCCESS) return NOT_FOUND;
  profile_unsigned(instance->gpu, profile, "slices", &all);
  profile_unsigned(instance->gpu, profile, "sms", &sms);
  if (kind >= COMPUTE_KINDS || compute_kinds[kind] > all) return NOT_SUPPORTED;
  info->id = kind;
  info->slices = compute_kinds[kind];
  info->most = all / compute_kinds[kind];
  info->multiprocessors = sms * compute_kinds[kind] / all;
  return SUCCESS;
}
int nvmlGpuInstanceGetComputeInstanceProfileInfoV(const GpuInstance *instance, unsigned kind,
                                                  unsigned engines, ComputeProfile *info) {
  (void)engines;
  return compute_profile(instance, kind, info);
}

/* ---- creating ---- */

int nvmlDeviceCreateGpuInstanceWithPlacement(const Device *device, unsigned id,
                                             const Placement *asked, GpuInstance **instance) {
  Placement all[INSTANCES];
  unsigned profile, each, used, gpu = (unsigned)device->gpu;
  int number = 1, result = may(device->gpu, "create");
  if (result == SUCCESS) result = profile_of(device->gpu, id, &profile);
  if (result != SUCCESS) return result;
  unsigned total = placements_of(device->gpu, profile, all);
  for (each = 0; each < total; each++)
    if (all[each].start == asked->start && all[each].size == asked->size) break;
  if (each == total) return INVALID_ARGUMENT;
  if (!count_left(device->gpu, profile) || !is_free(device->gpu, *asked)) return INSUFFICIENT_RESOURCES;
  while (number < INSTANCES &&
         instance_unsigned(device->gpu, number, "profile_id", &used) == SUCCESS)
    number++;
  FILE *file = open_to_add();
  if (!file || number >= INSTANCES) return NO_PERMISSION;
  fprintf(file, "gpu.%u.gi.%d.profile_id %u\n", gpu, number, id);
  fprintf(file, "gpu.%u.gi.%d.start %u\n", gpu, number, asked->start);
  fprintf(file, "gpu.%u.gi.%d.size %u\n", gpu, number, asked->size);
  fclose(file);
  tell("create gi %d\n", number);
  return nvmlDeviceGetGpuInstanceById(device, (unsigned)number, instance);
}
int nvmlGpuInstanceCreateComputeInstance(GpuInstance *instance, unsigned kind,
                                         ComputeInstance **compute) {
  char value[LINE] = "", name[LINE] = "";
  unsigned id = 0, profile = 0, all = 0, memory = 0;
  int gpu = instance->gpu, index = 0, result = may(gpu, "create");
  ComputeProfile info;
  if (result == SUCCESS) result = may(gpu, "create_ci");
  if (result == SUCCESS) result = compute_profile(instance, kind, &info);
  if (result != SUCCESS) return result;
  if (mig_index(gpu, instance->id) >= 0) return INSUFFICIENT_RESOURCES;
  instance_unsigned(gpu, instance->id, "profile_id", &id);
  profile_of(gpu, id, &profile);
  profile_unsigned(gpu, profile, "slices", &all);
  profile_unsigned(gpu, profile, "memory_mb", &memory);
  text(value, "gpu.%d.profile.%u.name", gpu, profile);
  device_text(device_of(gpu, -1), "name", name);
  char uuid[LINE], prefix[64];
  while (index < INSTANCES && text(uuid, "gpu.%d.mig.%d.uuid", gpu, index) == SUCCESS) index++;
  FILE *file = open_to_add();
  if (!file || index == INSTANCES) return NO_PERMISSION;
  snprintf(prefix, sizeof prefix, "gpu.%d.mig.%d", gpu, index);
  fprintf(file, "%s.uuid MIG-%08x-0000-4000-8000-%012x\n", prefix, gpu, instance->id);
  fprintf(file, "%s.name %s MIG %s\n%s.sms %u\n", prefix, name, value, prefix, info.multiprocessors);
  fprintf(file, "%s.slices %u\n%s.compute_slices %u\n", prefix, all, prefix, info.slices);
  fprintf(file, "%s.memory_mb %u\n%s.gi %d\n%s.ci 0\n", prefix, memory, prefix, instance->id, prefix);
  fclose(file);
  tell("create ci %d/0\n", instance->id);
  compute_instances[gpu][instance->id] = (ComputeInstance){instance, kind};
  *compute = &compute_instances[gpu][instance->id];
  return SUCCESS;
}

typedef struct {
  Device *device;
  GpuInstance *instance;
  unsigned id, profile_id;
  Placement placement;
} ComputeInstanceInfo;
int nvmlComputeInstanceGetInfo_v2(const ComputeInstance *compute, ComputeInstanceInfo *info) {
  if (mig_index(compute->of->gpu, compute->of->id) < 0) return NOT_FOUND; /* a stale handle */
  memset(info, 0, sizeof *info);
  info->device = device_of(compute->of->gpu, -1);
  info->instance = compute->of;
  info->profile_id = compute->profile;
  return SUCCESS;
}
int nvmlGpuInstanceGetComputeInstanceById(GpuInstance *instance, unsigned id,
                                          ComputeInstance **compute) {
  if (id != 0 || mig_index(instance->gpu, instance->id) < 0) return NOT_FOUND;
  compute_instances[instance->gpu][instance->id].of = instance;
  *compute = &compute_instances[instance->gpu][instance->id];
  return SUCCESS;
}

/* ---- destroying ---- */

int nvmlComputeInstanceDestroy(const ComputeInstance *compute) {
  char prefix[64];
  int gpu = compute->of->gpu, result = may(gpu, "create"), index = mig_index(gpu, compute->of->id);
  if (result == SUCCESS) result = may(gpu, "destroy");
  if (result != SUCCESS) return result;
  if (index < 0) return NOT_FOUND;
  snprintf(prefix, sizeof prefix, "gpu.%d.mig.%d", gpu, index);
  tell("destroy ci %d/0\n", compute->of->id);
  return forget(prefix);
}
int nvmlGpuInstanceDestroy(const GpuInstance *instance) {
  char prefix[64];
  unsigned id;
  int result = may(instance->gpu, "create");
  if (result == SUCCESS) result = may(instance->gpu, "destroy");
  if (result != SUCCESS) return result;
  if (instance_unsigned(instance->gpu, instance->id, "profile_id", &id) != SUCCESS) return NOT_FOUND;
  if (mig_index(instance->gpu, instance->id) >= 0) return IN_USE;
  snprintf(prefix, sizeof prefix, "gpu.%d.gi.%d", instance->gpu, instance->id);
  tell("destroy gi %d\n", instance->id);
  return forget(prefix);
}
