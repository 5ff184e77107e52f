#pragma once

#include <cstddef>
#include <cstdint>

// The part of PJRT's C interface that is used here, said in our own words: what lies where in memory. abi_test.cpp
// holds every slot, size and offset to the header that the wheels ship. The interface (openxla/xla, xla/pjrt/c) grows
// at the ends only: a plugin's table of functions, and each structure, says how long it is.
namespace tutti::pjrt::abi {

constexpr int kMajorVersion = 0;
constexpr int kOldestMinorVersion = 60;  // entries changed their places at 45 and 57, and no more since

struct Error;
struct Event;
struct Client;
struct Device;
struct DeviceDescription;
struct Memory;
struct Executable;
struct LoadedExecutable;
struct Buffer;
struct TopologyDescription;

// What each structure begins with; `last` is its last member that is known here. Structures of arguments also say which
// entry of the table takes them: a function that returns null, or an error that the caller destroys.
#define TUTTI_PJRT_STRUCT(type, last)                                            \
  static constexpr size_t size() { return offsetof(type, last) + sizeof(last); } \
  size_t struct_size = size();                                                   \
  void* extension_start = nullptr
#define TUTTI_PJRT_CALL(type, slot, name, last) \
  static constexpr int kSlot = slot;            \
  static constexpr const char* kName = name;    \
  TUTTI_PJRT_STRUCT(type, last)

struct Version {
  TUTTI_PJRT_STRUCT(Version, minor_version);
  int major_version, minor_version;
};

// What GetPjrtApi() returns. An entry is there if struct_size reaches behind it and it is not null.
struct Api {
  static constexpr int kSlots = 97;  // those up to the last that is used
  size_t struct_size;
  void* extension_start;
  Version version;
  void* entries[kSlots];
};

enum class ValueType : int { string = 0, int64 = 1, int64_list = 2, float32 = 3, boolean = 4 };
struct NamedValue {
  TUTTI_PJRT_STRUCT(NamedValue, value_size);
  const char* name;
  size_t name_size;
  ValueType type;
  union {
    const char* string_value;
    int64_t int64_value;
    const int64_t* int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;  // the length of a text or list; else 1
};

struct Program {
  TUTTI_PJRT_STRUCT(Program, format_size);
  char* code;
  size_t code_size;
  const char* format;  // "mlir": text or bytecode
  size_t format_size;
};

// A host's layout: from the fastest to the slowest dimension.
struct Tiled {
  TUTTI_PJRT_STRUCT(Tiled, num_tiles);
  const int64_t* minor_to_major;
  size_t minor_to_major_size;
  const int64_t* tile_dims;
  const size_t* tile_dim_sizes;
  size_t num_tiles;
};
struct MemoryLayout {
  TUTTI_PJRT_STRUCT(MemoryLayout, type);
  Tiled tiled;
  int type;  // 0: tiled
};

struct ExecuteOptions {
  TUTTI_PJRT_STRUCT(ExecuteOptions, incarnation_ids);
  void** send_callbacks;
  void** recv_callbacks;
  size_t num_send_ops, num_recv_ops;
  int launch_id;
  const int64_t* non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
  void* context;
  const char* call_location;
  size_t num_tasks;
  int* task_ids;
  int64_t* incarnation_ids;
};

// --- The entries. Where no comment says otherwise, members behind the first one are results. ------------------------

struct ErrorDestroy {
  TUTTI_PJRT_CALL(ErrorDestroy, 0, "PJRT_Error_Destroy", error);
  Error* error;
};
struct ErrorMessage {
  TUTTI_PJRT_CALL(ErrorMessage, 1, "PJRT_Error_Message", message_size);
  const Error* error;
  const char* message;  // the error's own
  size_t message_size;
};
struct ErrorGetCode {
  TUTTI_PJRT_CALL(ErrorGetCode, 2, "PJRT_Error_GetCode", code);
  const Error* error;
  int code;  // absl's numbers
};

struct PluginInitialize {
  TUTTI_PJRT_CALL(PluginInitialize, 3, "PJRT_Plugin_Initialize", extension_start);
};
struct PluginAttributes {
  TUTTI_PJRT_CALL(PluginAttributes, 4, "PJRT_Plugin_Attributes", num_attributes);
  const NamedValue* attributes;
  size_t num_attributes;
};

struct EventDestroy {
  TUTTI_PJRT_CALL(EventDestroy, 5, "PJRT_Event_Destroy", event);
  Event* event;
};
struct EventOnReady {
  TUTTI_PJRT_CALL(EventOnReady, 9, "PJRT_Event_OnReady", user_arg);
  Event* event;
  void (*callback)(Error* error, void* user_arg);  // taken, as is user_arg; the error is the callback's to destroy
  void* user_arg;
};

struct ClientCreate {
  TUTTI_PJRT_CALL(ClientCreate, 10, "PJRT_Client_Create", kv_try_get_user_arg);
  const NamedValue* create_options;  // taken, as are the store's functions, which several hosts need
  size_t num_options;
  void* kv_get_callback;
  void* kv_get_user_arg;
  void* kv_put_callback;
  void* kv_put_user_arg;
  Client* client;
  void* kv_try_get_callback;
  void* kv_try_get_user_arg;
};
struct ClientDestroy {
  TUTTI_PJRT_CALL(ClientDestroy, 11, "PJRT_Client_Destroy", client);
  Client* client;
};
struct ClientPlatformName {
  TUTTI_PJRT_CALL(ClientPlatformName, 12, "PJRT_Client_PlatformName", platform_name_size);
  Client* client;
  const char* platform_name;
  size_t platform_name_size;
};
struct ClientPlatformVersion {
  TUTTI_PJRT_CALL(ClientPlatformVersion, 14, "PJRT_Client_PlatformVersion", platform_version_size);
  Client* client;
  const char* platform_version;
  size_t platform_version_size;
};
struct ClientAddressableDevices {
  TUTTI_PJRT_CALL(ClientAddressableDevices, 16, "PJRT_Client_AddressableDevices", num_addressable_devices);
  Client* client;
  Device* const* addressable_devices;
  size_t num_addressable_devices;
};
struct ClientCompile {
  TUTTI_PJRT_CALL(ClientCompile, 20, "PJRT_Client_Compile", executable);
  Client* client;
  const Program* program;  // taken, as are the options: a CompileOptionsProto
  const char* compile_options;
  size_t compile_options_size;
  LoadedExecutable* executable;
};
struct ClientBufferFromHostBuffer {
  TUTTI_PJRT_CALL(ClientBufferFromHostBuffer, 22, "PJRT_Client_BufferFromHostBuffer", buffer);
  Client* client;
  const void* data;  // taken, and all up to device_layout
  int type;
  const int64_t* dims;
  size_t num_dims;
  const int64_t* byte_strides;
  size_t num_byte_strides;
  int host_buffer_semantics;  // 0: read during the call; 1: until the event
  Device* device;
  Memory* memory;
  MemoryLayout* device_layout;
  Event* done_with_host_buffer;
  Buffer* buffer;
};

struct DeviceDescriptionId {
  TUTTI_PJRT_CALL(DeviceDescriptionId, 23, "PJRT_DeviceDescription_Id", id);
  DeviceDescription* device_description;
  int id;
};
struct DeviceDescriptionProcessIndex {
  TUTTI_PJRT_CALL(DeviceDescriptionProcessIndex, 24, "PJRT_DeviceDescription_ProcessIndex", process_index);
  DeviceDescription* device_description;
  int process_index;
};
struct DeviceDescriptionAttributes {
  TUTTI_PJRT_CALL(DeviceDescriptionAttributes, 25, "PJRT_DeviceDescription_Attributes", attributes);
  DeviceDescription* device_description;
  size_t num_attributes;
  const NamedValue* attributes;
};
struct DeviceDescriptionKind {
  TUTTI_PJRT_CALL(DeviceDescriptionKind, 26, "PJRT_DeviceDescription_Kind", device_kind_size);
  DeviceDescription* device_description;
  const char* device_kind;
  size_t device_kind_size;
};
struct DeviceGetDescription {
  TUTTI_PJRT_CALL(DeviceGetDescription, 29, "PJRT_Device_GetDescription", device_description);
  Device* device;
  DeviceDescription* device_description;
};

}  // namespace tutti::pjrt::abi
