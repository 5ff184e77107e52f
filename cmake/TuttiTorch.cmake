# Finds LibTorch and describes it as the target tutti::torch, whose headers raise no warnings of ours. Read by the
# project's own build and by the installed package.
#
# LibTorch's own package file is only located, never read: that of a CUDA build stops where no CUDA toolkit is installed
# (nothing here needs one), and it defines a dummy protobuf::libprotobuf that hides the real one.

find_path(Torch_DIR TorchConfig.cmake
  HINTS ${CMAKE_PREFIX_PATH} ENV CMAKE_PREFIX_PATH ${TUTTI_TORCH_HINT}
  PATH_SUFFIXES share/cmake/Torch Torch
  DOC "The folder with LibTorch's TorchConfig.cmake")
if(NOT Torch_DIR)
  message(FATAL_ERROR "No LibTorch was found. Name one with -DCMAKE_PREFIX_PATH=<libtorch>, or let ./dev setup fetch it.")
endif()

set(PACKAGE_FIND_VERSION 2.11)
include("${Torch_DIR}/TorchConfigVersion.cmake")
set(TUTTI_TORCH_VERSION ${PACKAGE_VERSION})
if(TUTTI_TORCH_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  message(FATAL_ERROR "LibTorch in ${Torch_DIR} is ${TUTTI_TORCH_VERSION}; ${PACKAGE_FIND_VERSION} or later is needed.")
endif()
unset(PACKAGE_FIND_VERSION)

cmake_path(SET TUTTI_TORCH_ROOT NORMALIZE "${Torch_DIR}/../../..")
cmake_path(GET TUTTI_TORCH_ROOT PARENT_PATH TUTTI_TORCH_ROOT)  # without the slash at its end
file(STRINGS "${Torch_DIR}/../Caffe2/Caffe2Targets.cmake" torch_definitions REGEX "INTERFACE_COMPILE_DEFINITIONS")
string(REGEX MATCHALL "USE_[A-Z0-9_]+" torch_definitions "${torch_definitions}")
list(REMOVE_DUPLICATES torch_definitions)

# libtorch.so and libtorch_cuda.so are never named by a symbol of ours, yet must be loaded for their kernels. Before them
# stands the C++ library: libtorch.so of a CUDA build has parts of an older one (std::filesystem's), and programs that got
# those would crash.
set(torch_libraries -Wl,--no-as-needed stdc++)
foreach(library IN ITEMS torch torch_cpu torch_cuda c10 c10_cuda)
  set(file "${TUTTI_TORCH_ROOT}/lib/lib${library}.so")
  if(EXISTS "${file}")
    list(APPEND torch_libraries "${file}")
  endif()
endforeach()
list(APPEND torch_libraries -Wl,--as-needed)

if(NOT TARGET tutti::torch)
  add_library(tutti::torch INTERFACE IMPORTED)
  target_include_directories(tutti::torch INTERFACE "${TUTTI_TORCH_ROOT}/include" "${TUTTI_TORCH_ROOT}/include/torch/csrc/api/include")
  target_compile_definitions(tutti::torch INTERFACE ${torch_definitions})
  target_link_libraries(tutti::torch INTERFACE ${torch_libraries})
endif()
