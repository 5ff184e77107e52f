#pragma once

#include "tutti/pjrt/abi.h"

// The entries of PJRT's C interface for executables, buffers and topologies; abi.h says what holds for all.
namespace tutti::pjrt::abi {

struct ExecutableDestroy {
  TUTTI_PJRT_CALL(ExecutableDestroy, 40, "PJRT_Executable_Destroy", executable);
  Executable* executable;
};
struct ExecutableNumOutputs {
  TUTTI_PJRT_CALL(ExecutableNumOutputs, 44, "PJRT_Executable_NumOutputs", num_outputs);
  Executable* executable;
  size_t num_outputs;
};
struct ExecutableSizeOfGeneratedCode {
  TUTTI_PJRT_CALL(ExecutableSizeOfGeneratedCode, 45, "PJRT_Executable_SizeOfGeneratedCodeInBytes", size_in_bytes);
  Executable* executable;
  int64_t size_in_bytes;
};
struct ExecutableOptimizedProgram {
  TUTTI_PJRT_CALL(ExecutableOptimizedProgram, 48, "PJRT_Executable_OptimizedProgram", program);
  Executable* executable;
  Program* program;  // without memory for the code: says how much; with: fills it
};

struct LoadedExecutableDestroy {
  TUTTI_PJRT_CALL(LoadedExecutableDestroy, 50, "PJRT_LoadedExecutable_Destroy", executable);
  LoadedExecutable* executable;
};
struct LoadedExecutableGetExecutable {
  TUTTI_PJRT_CALL(LoadedExecutableGetExecutable, 51, "PJRT_LoadedExecutable_GetExecutable", executable);
  LoadedExecutable* loaded_executable;
  Executable* executable;
};
struct LoadedExecutableExecute {
  TUTTI_PJRT_CALL(LoadedExecutableExecute, 55, "PJRT_LoadedExecutable_Execute", execute_device);
  LoadedExecutable* executable;
  ExecuteOptions* options;               // taken, and all that follows
  Buffer* const* const* argument_lists;  // [device][argument]
  size_t num_devices, num_args;
  Buffer** const* output_lists;    // [device][output]: filled
  Event** device_complete_events;  // [device]: filled
  Device* execute_device;          // null: the devices that it was compiled for
};

struct BufferDestroy {
  TUTTI_PJRT_CALL(BufferDestroy, 58, "PJRT_Buffer_Destroy", buffer);
  Buffer* buffer;
};
struct BufferElementType {
  TUTTI_PJRT_CALL(BufferElementType, 59, "PJRT_Buffer_ElementType", type);
  Buffer* buffer;
  int type;
};
struct BufferDimensions {
  TUTTI_PJRT_CALL(BufferDimensions, 60, "PJRT_Buffer_Dimensions", num_dims);
  Buffer* buffer;
  const int64_t* dims;
  size_t num_dims;
};
struct BufferIsDeleted {
  TUTTI_PJRT_CALL(BufferIsDeleted, 68, "PJRT_Buffer_IsDeleted", is_deleted);
  Buffer* buffer;
  bool is_deleted;
};
struct BufferToHostBuffer {
  TUTTI_PJRT_CALL(BufferToHostBuffer, 70, "PJRT_Buffer_ToHostBuffer", event);
  Buffer* src;
  MemoryLayout* host_layout;  // taken
  void* dst;                  // written until the event
  size_t dst_size;            // taken
  Event* event;
};

struct TopologyDescriptionCreate {
  TUTTI_PJRT_CALL(TopologyDescriptionCreate, 82, "PJRT_TopologyDescription_Create", topology);
  const char* topology_name;  // taken, and the options
  size_t topology_name_size;
  const NamedValue* create_options;
  size_t num_options;
  TopologyDescription* topology;
};
struct TopologyDescriptionDestroy {
  TUTTI_PJRT_CALL(TopologyDescriptionDestroy, 83, "PJRT_TopologyDescription_Destroy", topology);
  TopologyDescription* topology;
};
struct TopologyDescriptionDevices {
  TUTTI_PJRT_CALL(TopologyDescriptionDevices, 86, "PJRT_TopologyDescription_GetDeviceDescriptions", num_descriptions);
  const TopologyDescription* topology;
  DeviceDescription* const* descriptions;
  size_t num_descriptions;
};
struct Compile {
  TUTTI_PJRT_CALL(Compile, 89, "PJRT_Compile", executable);
  const TopologyDescription* topology;
  const Program* program;  // taken, and the options
  const char* compile_options;
  size_t compile_options_size;
  Client* client;
  Executable* executable;
};

struct ExecutableMemoryStats {
  TUTTI_PJRT_CALL(ExecutableMemoryStats, 96, "PJRT_Executable_GetCompiledMemoryStats", total_size_in_bytes);
  Executable* executable;
  int64_t generated_code_size_in_bytes, argument_size_in_bytes, output_size_in_bytes, alias_size_in_bytes,
      temp_size_in_bytes;
  int64_t host_generated_code_size_in_bytes, host_argument_size_in_bytes, host_output_size_in_bytes,
      host_alias_size_in_bytes, host_temp_size_in_bytes;
  int64_t peak_memory_in_bytes, total_size_in_bytes;
};

}  // namespace tutti::pjrt::abi
