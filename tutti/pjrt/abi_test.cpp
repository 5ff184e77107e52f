// Holds what abi.h says to the header that the wheels ship.
#include "tutti/pjrt/abi.h"

#include <gtest/gtest.h>

#include "tutti/pjrt/abi_programs.h"
#include "tutti/pjrt/element_type.h"

#if __has_include(<pjrt_c_api.h>)
#include <pjrt_c_api.h>
#endif

namespace tutti::pjrt::abi {
namespace {

#if __has_include(<pjrt_c_api.h>)

// Sizes as callers state them: up to the end of the last member. A newer header may have grown.
#define STRUCT(ours, theirs)                                                      \
  EXPECT_TRUE(PJRT_API_MINOR > 90 ? ours::size() <= size_t{theirs##_STRUCT_SIZE}  \
                                  : ours::size() == size_t{theirs##_STRUCT_SIZE}) \
      << #theirs << ": " << ours::size() << " and " << size_t{theirs##_STRUCT_SIZE} << " bytes"
#define MEMBER(ours, theirs, member)                                      \
  EXPECT_EQ(offsetof(ours, member), offsetof(theirs, member)) << #theirs; \
  EXPECT_EQ(sizeof(ours::member), sizeof(theirs::member)) << #theirs << "::" << #member
#define ENTRY(ours, name)                                                                             \
  STRUCT(ours, name##_Args);                                                                          \
  EXPECT_EQ(offsetof(Api, entries) + ours::kSlot * sizeof(void*), offsetof(PJRT_Api, name)) << #name; \
  EXPECT_STREQ(ours::kName, #name)

TEST(PjrtAbi, StructuresLieAsInTheHeader) {
  STRUCT(Version, PJRT_Api_Version);
  MEMBER(Version, PJRT_Api_Version, major_version);
  MEMBER(Version, PJRT_Api_Version, minor_version);
  STRUCT(NamedValue, PJRT_NamedValue);
  MEMBER(NamedValue, PJRT_NamedValue, name);
  MEMBER(NamedValue, PJRT_NamedValue, name_size);
  MEMBER(NamedValue, PJRT_NamedValue, type);
  MEMBER(NamedValue, PJRT_NamedValue, string_value);
  MEMBER(NamedValue, PJRT_NamedValue, int64_value);
  MEMBER(NamedValue, PJRT_NamedValue, int64_array_value);
  MEMBER(NamedValue, PJRT_NamedValue, float_value);
  MEMBER(NamedValue, PJRT_NamedValue, bool_value);
  MEMBER(NamedValue, PJRT_NamedValue, value_size);
  STRUCT(Program, PJRT_Program);
  MEMBER(Program, PJRT_Program, code);
  MEMBER(Program, PJRT_Program, code_size);
  MEMBER(Program, PJRT_Program, format);
  MEMBER(Program, PJRT_Program, format_size);
  STRUCT(Tiled, PJRT_Buffer_MemoryLayout_Tiled);
  MEMBER(Tiled, PJRT_Buffer_MemoryLayout_Tiled, minor_to_major);
  MEMBER(Tiled, PJRT_Buffer_MemoryLayout_Tiled, minor_to_major_size);
  MEMBER(Tiled, PJRT_Buffer_MemoryLayout_Tiled, tile_dims);
  MEMBER(Tiled, PJRT_Buffer_MemoryLayout_Tiled, tile_dim_sizes);
  MEMBER(Tiled, PJRT_Buffer_MemoryLayout_Tiled, num_tiles);
  STRUCT(MemoryLayout, PJRT_Buffer_MemoryLayout);
  MEMBER(MemoryLayout, PJRT_Buffer_MemoryLayout, tiled);
  MEMBER(MemoryLayout, PJRT_Buffer_MemoryLayout, type);
  STRUCT(ExecuteOptions, PJRT_ExecuteOptions);
  MEMBER(ExecuteOptions, PJRT_ExecuteOptions, send_callbacks);
  MEMBER(ExecuteOptions, PJRT_ExecuteOptions, recv_callbacks);
  MEMBER(ExecuteOptions, PJRT_ExecuteOptions, num_send_ops);
  MEMBER(ExecuteOptions, PJRT_ExecuteOptions, num_recv_ops);
  MEMBER(ExecuteOptions, PJRT_ExecuteOptions, launch_id);
  MEMBER(ExecuteOptions, PJRT_ExecuteOptions, non_donatable_input_indices);
  MEMBER(ExecuteOptions, PJRT_ExecuteOptions, num_non_donatable_input_indices);
  MEMBER(ExecuteOptions, PJRT_ExecuteOptions, context);
  MEMBER(ExecuteOptions, PJRT_ExecuteOptions, call_location);
  MEMBER(ExecuteOptions, PJRT_ExecuteOptions, num_tasks);
  MEMBER(ExecuteOptions, PJRT_ExecuteOptions, task_ids);
  MEMBER(ExecuteOptions, PJRT_ExecuteOptions, incarnation_ids);
}

TEST(PjrtAbi, EntriesLieAsInTheHeader) {
  ENTRY(ErrorDestroy, PJRT_Error_Destroy);
  MEMBER(ErrorDestroy, PJRT_Error_Destroy_Args, error);
  ENTRY(ErrorMessage, PJRT_Error_Message);
  MEMBER(ErrorMessage, PJRT_Error_Message_Args, error);
  MEMBER(ErrorMessage, PJRT_Error_Message_Args, message);
  MEMBER(ErrorMessage, PJRT_Error_Message_Args, message_size);
  ENTRY(ErrorGetCode, PJRT_Error_GetCode);
  MEMBER(ErrorGetCode, PJRT_Error_GetCode_Args, error);
  MEMBER(ErrorGetCode, PJRT_Error_GetCode_Args, code);
  ENTRY(PluginInitialize, PJRT_Plugin_Initialize);
  ENTRY(PluginAttributes, PJRT_Plugin_Attributes);
  MEMBER(PluginAttributes, PJRT_Plugin_Attributes_Args, attributes);
  MEMBER(PluginAttributes, PJRT_Plugin_Attributes_Args, num_attributes);
  ENTRY(EventDestroy, PJRT_Event_Destroy);
  MEMBER(EventDestroy, PJRT_Event_Destroy_Args, event);
  ENTRY(EventOnReady, PJRT_Event_OnReady);
  MEMBER(EventOnReady, PJRT_Event_OnReady_Args, event);
  MEMBER(EventOnReady, PJRT_Event_OnReady_Args, callback);
  MEMBER(EventOnReady, PJRT_Event_OnReady_Args, user_arg);
  ENTRY(ClientCreate, PJRT_Client_Create);
  MEMBER(ClientCreate, PJRT_Client_Create_Args, create_options);
  MEMBER(ClientCreate, PJRT_Client_Create_Args, num_options);
  MEMBER(ClientCreate, PJRT_Client_Create_Args, kv_get_callback);
  MEMBER(ClientCreate, PJRT_Client_Create_Args, kv_get_user_arg);
  MEMBER(ClientCreate, PJRT_Client_Create_Args, kv_put_callback);
  MEMBER(ClientCreate, PJRT_Client_Create_Args, kv_put_user_arg);
  MEMBER(ClientCreate, PJRT_Client_Create_Args, client);
  MEMBER(ClientCreate, PJRT_Client_Create_Args, kv_try_get_callback);
  MEMBER(ClientCreate, PJRT_Client_Create_Args, kv_try_get_user_arg);
  ENTRY(ClientDestroy, PJRT_Client_Destroy);
  MEMBER(ClientDestroy, PJRT_Client_Destroy_Args, client);
  ENTRY(ClientPlatformName, PJRT_Client_PlatformName);
  MEMBER(ClientPlatformName, PJRT_Client_PlatformName_Args, client);
  MEMBER(ClientPlatformName, PJRT_Client_PlatformName_Args, platform_name);
  MEMBER(ClientPlatformName, PJRT_Client_PlatformName_Args, platform_name_size);
  ENTRY(ClientPlatformVersion, PJRT_Client_PlatformVersion);
  MEMBER(ClientPlatformVersion, PJRT_Client_PlatformVersion_Args, client);
  MEMBER(ClientPlatformVersion, PJRT_Client_PlatformVersion_Args, platform_version);
  MEMBER(ClientPlatformVersion, PJRT_Client_PlatformVersion_Args, platform_version_size);
  ENTRY(ClientAddressableDevices, PJRT_Client_AddressableDevices);
  MEMBER(ClientAddressableDevices, PJRT_Client_AddressableDevices_Args, client);
  MEMBER(ClientAddressableDevices, PJRT_Client_AddressableDevices_Args, addressable_devices);
  MEMBER(ClientAddressableDevices, PJRT_Client_AddressableDevices_Args, num_addressable_devices);
  ENTRY(ClientCompile, PJRT_Client_Compile);
  MEMBER(ClientCompile, PJRT_Client_Compile_Args, client);
  MEMBER(ClientCompile, PJRT_Client_Compile_Args, program);
  MEMBER(ClientCompile, PJRT_Client_Compile_Args, compile_options);
  MEMBER(ClientCompile, PJRT_Client_Compile_Args, compile_options_size);
  MEMBER(ClientCompile, PJRT_Client_Compile_Args, executable);
  ENTRY(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, client);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, data);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, type);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, dims);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, num_dims);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, byte_strides);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, num_byte_strides);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, host_buffer_semantics);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, device);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, memory);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, device_layout);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, done_with_host_buffer);
  MEMBER(ClientBufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args, buffer);
  ENTRY(DeviceDescriptionId, PJRT_DeviceDescription_Id);
  MEMBER(DeviceDescriptionId, PJRT_DeviceDescription_Id_Args, device_description);
  MEMBER(DeviceDescriptionId, PJRT_DeviceDescription_Id_Args, id);
  ENTRY(DeviceDescriptionProcessIndex, PJRT_DeviceDescription_ProcessIndex);
  MEMBER(DeviceDescriptionProcessIndex, PJRT_DeviceDescription_ProcessIndex_Args, device_description);
  MEMBER(DeviceDescriptionProcessIndex, PJRT_DeviceDescription_ProcessIndex_Args, process_index);
  ENTRY(DeviceDescriptionAttributes, PJRT_DeviceDescription_Attributes);
  MEMBER(DeviceDescriptionAttributes, PJRT_DeviceDescription_Attributes_Args, device_description);
  MEMBER(DeviceDescriptionAttributes, PJRT_DeviceDescription_Attributes_Args, num_attributes);
  MEMBER(DeviceDescriptionAttributes, PJRT_DeviceDescription_Attributes_Args, attributes);
  ENTRY(DeviceDescriptionKind, PJRT_DeviceDescription_Kind);
  MEMBER(DeviceDescriptionKind, PJRT_DeviceDescription_Kind_Args, device_description);
  MEMBER(DeviceDescriptionKind, PJRT_DeviceDescription_Kind_Args, device_kind);
  MEMBER(DeviceDescriptionKind, PJRT_DeviceDescription_Kind_Args, device_kind_size);
  ENTRY(DeviceGetDescription, PJRT_Device_GetDescription);
  MEMBER(DeviceGetDescription, PJRT_Device_GetDescription_Args, device);
  MEMBER(DeviceGetDescription, PJRT_Device_GetDescription_Args, device_description);
  ENTRY(ExecutableDestroy, PJRT_Executable_Destroy);
  MEMBER(ExecutableDestroy, PJRT_Executable_Destroy_Args, executable);
  ENTRY(ExecutableNumOutputs, PJRT_Executable_NumOutputs);
  MEMBER(ExecutableNumOutputs, PJRT_Executable_NumOutputs_Args, executable);
  MEMBER(ExecutableNumOutputs, PJRT_Executable_NumOutputs_Args, num_outputs);
  ENTRY(ExecutableSizeOfGeneratedCode, PJRT_Executable_SizeOfGeneratedCodeInBytes);
  MEMBER(ExecutableSizeOfGeneratedCode, PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, executable);
  MEMBER(ExecutableSizeOfGeneratedCode, PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, size_in_bytes);
  ENTRY(ExecutableOptimizedProgram, PJRT_Executable_OptimizedProgram);
  MEMBER(ExecutableOptimizedProgram, PJRT_Executable_OptimizedProgram_Args, executable);
  MEMBER(ExecutableOptimizedProgram, PJRT_Executable_OptimizedProgram_Args, program);
  ENTRY(LoadedExecutableDestroy, PJRT_LoadedExecutable_Destroy);
  MEMBER(LoadedExecutableDestroy, PJRT_LoadedExecutable_Destroy_Args, executable);
  ENTRY(LoadedExecutableGetExecutable, PJRT_LoadedExecutable_GetExecutable);
  MEMBER(LoadedExecutableGetExecutable, PJRT_LoadedExecutable_GetExecutable_Args, loaded_executable);
  MEMBER(LoadedExecutableGetExecutable, PJRT_LoadedExecutable_GetExecutable_Args, executable);
  ENTRY(LoadedExecutableExecute, PJRT_LoadedExecutable_Execute);
  MEMBER(LoadedExecutableExecute, PJRT_LoadedExecutable_Execute_Args, executable);
  MEMBER(LoadedExecutableExecute, PJRT_LoadedExecutable_Execute_Args, options);
  MEMBER(LoadedExecutableExecute, PJRT_LoadedExecutable_Execute_Args, argument_lists);
  MEMBER(LoadedExecutableExecute, PJRT_LoadedExecutable_Execute_Args, num_devices);
  MEMBER(LoadedExecutableExecute, PJRT_LoadedExecutable_Execute_Args, num_args);
  MEMBER(LoadedExecutableExecute, PJRT_LoadedExecutable_Execute_Args, output_lists);
  MEMBER(LoadedExecutableExecute, PJRT_LoadedExecutable_Execute_Args, device_complete_events);
  MEMBER(LoadedExecutableExecute, PJRT_LoadedExecutable_Execute_Args, execute_device);
  ENTRY(BufferDestroy, PJRT_Buffer_Destroy);
  MEMBER(BufferDestroy, PJRT_Buffer_Destroy_Args, buffer);
  ENTRY(BufferElementType, PJRT_Buffer_ElementType);
  MEMBER(BufferElementType, PJRT_Buffer_ElementType_Args, buffer);
  MEMBER(BufferElementType, PJRT_Buffer_ElementType_Args, type);
  ENTRY(BufferDimensions, PJRT_Buffer_Dimensions);
  MEMBER(BufferDimensions, PJRT_Buffer_Dimensions_Args, buffer);
  MEMBER(BufferDimensions, PJRT_Buffer_Dimensions_Args, dims);
  MEMBER(BufferDimensions, PJRT_Buffer_Dimensions_Args, num_dims);
  ENTRY(BufferIsDeleted, PJRT_Buffer_IsDeleted);
  MEMBER(BufferIsDeleted, PJRT_Buffer_IsDeleted_Args, buffer);
  MEMBER(BufferIsDeleted, PJRT_Buffer_IsDeleted_Args, is_deleted);
  ENTRY(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer);
  MEMBER(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer_Args, src);
  MEMBER(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer_Args, host_layout);
  MEMBER(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer_Args, dst);
  MEMBER(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer_Args, dst_size);
  MEMBER(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer_Args, event);
  ENTRY(TopologyDescriptionCreate, PJRT_TopologyDescription_Create);
  MEMBER(TopologyDescriptionCreate, PJRT_TopologyDescription_Create_Args, topology_name);
  MEMBER(TopologyDescriptionCreate, PJRT_TopologyDescription_Create_Args, topology_name_size);
  MEMBER(TopologyDescriptionCreate, PJRT_TopologyDescription_Create_Args, create_options);
  MEMBER(TopologyDescriptionCreate, PJRT_TopologyDescription_Create_Args, num_options);
  MEMBER(TopologyDescriptionCreate, PJRT_TopologyDescription_Create_Args, topology);
  ENTRY(TopologyDescriptionDestroy, PJRT_TopologyDescription_Destroy);
  MEMBER(TopologyDescriptionDestroy, PJRT_TopologyDescription_Destroy_Args, topology);
  ENTRY(TopologyDescriptionDevices, PJRT_TopologyDescription_GetDeviceDescriptions);
  MEMBER(TopologyDescriptionDevices, PJRT_TopologyDescription_GetDeviceDescriptions_Args, topology);
  MEMBER(TopologyDescriptionDevices, PJRT_TopologyDescription_GetDeviceDescriptions_Args, descriptions);
  MEMBER(TopologyDescriptionDevices, PJRT_TopologyDescription_GetDeviceDescriptions_Args, num_descriptions);
  ENTRY(Compile, PJRT_Compile);
  MEMBER(Compile, PJRT_Compile_Args, topology);
  MEMBER(Compile, PJRT_Compile_Args, program);
  MEMBER(Compile, PJRT_Compile_Args, compile_options);
  MEMBER(Compile, PJRT_Compile_Args, compile_options_size);
  MEMBER(Compile, PJRT_Compile_Args, client);
  MEMBER(Compile, PJRT_Compile_Args, executable);
  ENTRY(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, executable);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, generated_code_size_in_bytes);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, argument_size_in_bytes);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, output_size_in_bytes);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, alias_size_in_bytes);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, temp_size_in_bytes);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, host_generated_code_size_in_bytes);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, host_argument_size_in_bytes);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, host_output_size_in_bytes);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, host_alias_size_in_bytes);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, host_temp_size_in_bytes);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, peak_memory_in_bytes);
  MEMBER(ExecutableMemoryStats, PJRT_Executable_GetCompiledMemoryStats_Args, total_size_in_bytes);
  EXPECT_EQ(PJRT_API_MAJOR, kMajorVersion);
}

TEST(PjrtAbi, NumbersAreTheHeaders) {
  EXPECT_EQ(static_cast<int>(ElementType::boolean), PJRT_Buffer_Type_PRED);
  EXPECT_EQ(static_cast<int>(ElementType::int64), PJRT_Buffer_Type_S64);
  EXPECT_EQ(static_cast<int>(ElementType::uint64), PJRT_Buffer_Type_U64);
  EXPECT_EQ(static_cast<int>(ElementType::float16), PJRT_Buffer_Type_F16);
  EXPECT_EQ(static_cast<int>(ElementType::float64), PJRT_Buffer_Type_F64);
  EXPECT_EQ(static_cast<int>(ElementType::bfloat16), PJRT_Buffer_Type_BF16);
  EXPECT_EQ(static_cast<int>(ElementType::complex128), PJRT_Buffer_Type_C128);
  EXPECT_EQ(static_cast<int>(ValueType::int64_list), PJRT_NamedValue_kInt64List);
  EXPECT_EQ(static_cast<int>(ValueType::boolean), PJRT_NamedValue_kBool);
  EXPECT_EQ(PJRT_Error_Code_DATA_LOSS, 15);
  EXPECT_EQ(PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes, 1);
  EXPECT_EQ(PJRT_Buffer_MemoryLayout_Type_Tiled, 0);
}

#else

TEST(PjrtAbi, LiesAsInTheHeader) { GTEST_SKIP() << "PJRT's header is not here: ./dev test -L pjrt fetches it"; }

#endif

}  // namespace
}  // namespace tutti::pjrt::abi
