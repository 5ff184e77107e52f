# The build vocabulary of the project: a folder of the library, a test binary, a program.

set(TUTTI_PROTO_DIR "${PROJECT_BINARY_DIR}/proto")  # where protoc's headers lie, as their .proto files do in the project

add_library(tutti_options INTERFACE)
target_compile_options(tutti_options INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers
  # GCC 12 invents overlaps and lengths in std::string (its bugs 105651, 105329) and values of c10::SmallVector that were
  # never set; where sources are compiled together, it takes their anonymous namespaces for a header's.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds
    -Wno-maybe-uninitialized -Wno-subobject-linkage>)
# LibTorch's headers then include only the operators they need, which saves a third of the compile time.
target_compile_definitions(tutti_options INTERFACE AT_PER_OPERATOR_HEADERS)
if(TUTTI_SANITIZE)
  set(sanitize -fsanitize=${TUTTI_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(TUTTI_SANITIZE MATCHES thread)
    list(APPEND sanitize -Wno-tsan)  # LibTorch's reference counts have fences, which ThreadSanitizer does not follow
  endif()
  target_compile_options(tutti_options INTERFACE ${sanitize})
  target_link_options(tutti_options INTERFACE ${sanitize})
endif()
# Read once, for they are most of what a source reads: ivalue.h and Context.h alone (which brings the processor's intrinsics)
# are five sixths of what was left beside Tensor.h. Each source still includes what it uses: the preset lint
# compiles without.
set(TUTTI_PRECOMPILED <ATen/Context.h> <ATen/core/Tensor.h> <ATen/core/dispatch/Dispatcher.h> <ATen/core/ivalue.h>
  <torch/csrc/autograd/variable.h> <algorithm> <atomic> <charconv> <chrono> <condition_variable> <filesystem> <fstream>
  <functional> <future> <list> <map> <memory> <mutex> <optional> <ranges> <set> <span> <string> <thread> <unordered_map>
  <unordered_set> <variant> <vector>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(tutti_options INTERFACE -fpch-preprocess)  # lets ccache see which header was precompiled
  if(TUTTI_UNITY)  # in files so large, looking for garbage takes a tenth of the time
    target_compile_options(tutti_options INTERFACE "SHELL:--param ggc-min-expand=200" "SHELL:--param ggc-min-heapsize=1500000")
  endif()
endif()
find_program(TUTTI_MOLD mold)
if(TUTTI_MOLD)
  target_link_options(tutti_options INTERFACE -fuse-ld=mold)
endif()

# tutti_unite(TARGET SOURCE...): with TUTTI_UNITY, sources of one folder of the library, and those of the folders in it, are
# compiled together, up to 128 KB of them at once: a source costs 11 s before its first line, and what one has instantiated
# the next need not.
set(TUTTI_UNITED_BYTES 128000)
function(tutti_unite target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TUTTI_UNITY} UNITY_BUILD_MODE GROUP)
  list(SORT ARGN)
  set(previous "")
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE name)
    string(REGEX MATCH "^[^/]+/[^/]+" folder "${name}")
    file(SIZE "${source}" size)
    math(EXPR bytes "${bytes} + ${size}")
    if(NOT folder STREQUAL previous OR bytes GREATER TUTTI_UNITED_BYTES)
      string(MAKE_C_IDENTIFIER "${name}" group)
      set(bytes ${size})
      set(previous "${folder}")
    endif()
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# tutti_library(NAME FOLDER...): a part of the library. Every source below tutti/FOLDER but main.cpp and *_module.cpp joins it; every
# *_test.cpp joins the binary FOLDER_test; those of FOLDER/rpc wait for tutti_rpc. A .proto is compiled by protoc, to
# NAME.pb.h; it and the source beside it of the same name join NAME_proto, which sees protobuf and never LibTorch, whose
# folder of headers holds those of another protobuf. The target tutti_protos makes all such headers.
add_custom_target(tutti_protos)
function(tutti_library library)
  add_library(${library} STATIC)
  target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${library} PUBLIC cxx_std_20)
  tutti_precompile(library ${library} ${TUTTI_PRECOMPILED})
  # The loops of optimizers and of recorded functions become vector code where sqrt() needs not set errno. Products are
  # not fused with sums, so that all processors give the same numbers, LibTorch's.
  target_compile_options(${library} PRIVATE -fno-math-errno -ffp-contract=off)
  target_link_libraries(${library} PRIVATE protobuf::libprotobuf ${CMAKE_DL_LIBS} $<BUILD_INTERFACE:tutti_options>)
  foreach(folder IN LISTS ARGN)
    tutti_folder(${library} ${folder})
  endforeach()
endfunction()

function(tutti_folder library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|_module|/main)\\.cpp$|/rpc/")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  file(GLOB_RECURSE protos CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.proto")
  if(protos AND NOT TARGET ${library}_proto)
    tutti_proto_library(${library})
  endif()
  foreach(proto IN LISTS protos)
    cmake_path(REPLACE_EXTENSION proto LAST_ONLY cpp OUTPUT_VARIABLE source)
    list(REMOVE_ITEM sources "${source}")
    tutti_protoc("${proto}" generated)
    target_sources(${library}_proto PRIVATE "${source}" "${generated}")
  endforeach()
  target_sources(${library} PRIVATE ${sources})
  tutti_unite(${library} ${sources})
  if(TUTTI_TESTS AND tests)
    set_property(GLOBAL APPEND PROPERTY TUTTI_TEST_FOLDERS ${name})
    set_property(GLOBAL PROPERTY TUTTI_TESTS_${name} ${tests})
    set_property(GLOBAL PROPERTY TUTTI_LIBRARY_${name} ${library})
  endif()
endfunction()

function(tutti_proto_library library)
  add_library(${library}_proto OBJECT)
  set_target_properties(${library}_proto PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${library}_proto PRIVATE "${PROJECT_SOURCE_DIR}")
  target_include_directories(${library}_proto SYSTEM PRIVATE "${TUTTI_PROTO_DIR}")  # protoc's style is its own business
  target_link_libraries(${library}_proto PRIVATE protobuf::libprotobuf tutti_options)
  target_sources(${library} PRIVATE $<TARGET_OBJECTS:${library}_proto>)
  add_dependencies(tutti_protos ${library}_proto)
endfunction()

# tutti_rpc(NAME LIBRARY FOLDER): the sources of FOLDER, which join the library. What speaks gRPC and OpenSSL never sees
# LibTorch, and what their headers define stays inside.
function(tutti_rpc name library folder)
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  add_library(${name} OBJECT ${sources})
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE OpenSSL::SSL tutti::grpc tutti_options)
  target_sources(${library} PRIVATE $<TARGET_OBJECTS:${name}>)
  target_link_libraries(${library} PRIVATE OpenSSL::SSL tutti::grpc)
endfunction()

# tutti_protoc(FILE VARIABLE): has protoc compile the file; the source that it makes goes into the variable.
function(tutti_protoc proto variable)
  cmake_path(RELATIVE_PATH proto BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE name)
  cmake_path(REPLACE_EXTENSION name LAST_ONLY pb OUTPUT_VARIABLE name)
  set(generated "${TUTTI_PROTO_DIR}/${name}")
  file(MAKE_DIRECTORY "${TUTTI_PROTO_DIR}")
  add_custom_command(OUTPUT "${generated}.cc" "${generated}.h" DEPENDS "${proto}"
    COMMAND protobuf::protoc "--cpp_out=${TUTTI_PROTO_DIR}" "--proto_path=${PROJECT_SOURCE_DIR}" "${proto}")
  set(${variable} "${generated}.cc" PARENT_SCOPE)
endfunction()

# tutti_test(NAME SOURCE...): a gtest binary linked with TUTTI_TEST_LIBRARY. ctest runs its tests in a few processes, as each
# loads LibTorch: NAME.0, NAME.1, … Their results are left for count_tests.py. The target tutti_tests builds every binary.
set(TUTTI_TEST_LIBRARY tutti)
set(TUTTI_TEST_PROCESSES 2)
function(tutti_test name)
  add_executable(${name} ${ARGN})
  tutti_unite(${name} ${ARGN})
  target_compile_options(${name} PRIVATE -O1)  # compiling costs more than running
  target_link_libraries(${name} PRIVATE ${TUTTI_TEST_LIBRARY} tutti_options tutti_same_random_numbers tutti_test_devices
    GTest::gmock GTest::gtest_main)
  math(EXPR last "${TUTTI_TEST_PROCESSES} - 1")
  foreach(i RANGE ${last})
    add_test(NAME ${name}.${i} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name}.${i} PROPERTIES LABELS gtest TIMEOUT 900 ENVIRONMENT
      "GTEST_TOTAL_SHARDS=${TUTTI_TEST_PROCESSES};GTEST_SHARD_INDEX=${i};GTEST_OUTPUT=json:${TUTTI_TEST_RESULTS}/${name}.${i}.json")
  endforeach()
  add_dependencies(tutti_tests ${name})
endfunction()

# tutti_precompile(KIND TARGET HEADER...): the headers are precompiled once for all targets of a kind.
function(tutti_precompile kind name)
  get_property(first GLOBAL PROPERTY TUTTI_PRECOMPILED_${kind})
  if(first)
    target_precompile_headers(${name} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY TUTTI_PRECOMPILED_${kind} ${name})
    target_precompile_headers(${name} PRIVATE ${ARGN})
  endif()
endfunction()

# tutti_program(KIND SOURCE LIBRARY...): a program named by its file.
function(tutti_program kind source)
  cmake_path(GET source STEM name)
  add_executable(${name} ${source})
  target_compile_definitions(${name} PRIVATE TUTTI_EXAMPLES_DATA="${PROJECT_SOURCE_DIR}/examples/data")
  target_link_libraries(${name} PRIVATE tutti_options ${ARGN})
  if(TUTTI_PRECOMPILE_PROGRAMS)
    tutti_precompile(${kind} ${name} <tutti/tutti.h>)
  endif()
endfunction()
