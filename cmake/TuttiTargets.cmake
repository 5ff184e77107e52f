# The build vocabulary of the project: a folder of the library, a test binary, a program.

set(TUTTI_PROTO_DIR "${PROJECT_BINARY_DIR}/proto")  # where protoc's headers lie, as their .proto files do in the project

add_library(tutti_options INTERFACE)
target_compile_options(tutti_options INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds>)  # GCC 12 invents overlaps and lengths in
                                                                # std::string: bugs 105651, 105329
# LibTorch's headers then include only the operators they need, which saves a third of the compile time.
target_compile_definitions(tutti_options INTERFACE AT_PER_OPERATOR_HEADERS)
if(TUTTI_SANITIZE)
  set(sanitize -fsanitize=${TUTTI_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)  # GCC 12 mistakes what AddressSanitizer adds
  if(TUTTI_SANITIZE MATCHES thread)
    list(APPEND sanitize -Wno-tsan)  # LibTorch's reference counts have fences, which ThreadSanitizer does not follow
  endif()
  target_compile_options(tutti_options INTERFACE ${sanitize})
  target_link_options(tutti_options INTERFACE ${sanitize})
endif()
# Read once, they take two to three seconds off each source that was timed. Each source still includes what it uses: the
# presets with sanitizers compile without.
set(TUTTI_PRECOMPILED <ATen/core/Tensor.h> <algorithm> <atomic> <condition_variable> <filesystem> <functional> <map>
  <memory> <mutex> <optional> <set> <span> <string> <thread> <variant> <vector>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(tutti_options INTERFACE -fpch-preprocess)  # lets ccache see which header was precompiled
endif()
find_program(TUTTI_MOLD mold)
if(TUTTI_MOLD)
  target_link_options(tutti_options INTERFACE -fuse-ld=mold)
endif()

# tutti_folder(NAME): every source below tutti/NAME but main.cpp joins the library; every *_test.cpp joins the binary
# NAME_test.
# A .proto is compiled by protoc, to NAME.pb.h; it and the source beside it of the same name join tutti_proto, which sees
# protobuf and never LibTorch, whose folder of headers holds those of another protobuf.
function(tutti_folder name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  file(GLOB_RECURSE protos CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.proto")
  foreach(proto IN LISTS protos)
    cmake_path(REPLACE_EXTENSION proto LAST_ONLY cpp OUTPUT_VARIABLE source)
    list(REMOVE_ITEM sources "${source}")
    tutti_protoc("${proto}" generated)
    target_sources(tutti_proto PRIVATE "${source}" "${generated}")
  endforeach()
  target_sources(tutti PRIVATE ${sources})
  if(TUTTI_TESTS AND tests)
    set_property(GLOBAL APPEND PROPERTY TUTTI_TEST_FOLDERS ${name})
    set_property(GLOBAL PROPERTY TUTTI_TESTS_${name} ${tests})
  endif()
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

# What every gtest binary is linked with.
function(tutti_link_test name)
  target_link_libraries(${name} PRIVATE tutti tutti_options tutti_same_random_numbers GTest::gmock GTest::gtest_main)
endfunction()

# tutti_test(NAME SOURCE...): a gtest binary linked with the library, its cases known to ctest.
# The target tutti_tests builds every one of them.
function(tutti_test name)
  add_executable(${name} ${ARGN})
  target_compile_options(${name} PRIVATE -O1)  # compiling costs more than running
  tutti_link_test(${name})
  get_property(first GLOBAL PROPERTY TUTTI_FIRST_TEST)
  if(first)
    target_precompile_headers(${name} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY TUTTI_FIRST_TEST ${name})
    target_precompile_headers(${name} PRIVATE ${TUTTI_PRECOMPILED} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300)
  add_dependencies(tutti_tests ${name})
endfunction()

# tutti_programs(LIBRARY...): one program per source of the folder, named by its file.
# No precompiled header: that of LibTorch takes 34 s and 700 MB before the first program starts and saves 11 s on each, which
# pays from the seventh program on two cores, and never for who builds one.
function(tutti_programs)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE tutti tutti_options ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY TUTTI_PROGRAMS ${name})
  endforeach()
endfunction()
