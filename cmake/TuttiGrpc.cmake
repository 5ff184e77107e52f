# Finds gRPC and describes it as the target tutti::grpc. Read by the project's own build and by the installed package. gRPC's
# own package file is not read: it asks for protobuf, which the library does without here, and for all that gRPC is built on.

find_path(TUTTI_GRPC_INCLUDE grpcpp/grpcpp.h)
set(grpc_libraries "")
foreach(library IN ITEMS grpc++ grpc gpr absl_synchronization)  # the last, for what its headers inline
  find_library(TUTTI_GRPC_${library} ${library})
  if(NOT TUTTI_GRPC_${library} OR NOT TUTTI_GRPC_INCLUDE)
    message(FATAL_ERROR "gRPC was not found: please install Debian's libgrpc++-dev (./dev setup does), or name its folder with -DCMAKE_PREFIX_PATH=<folder>.")
  endif()
  list(APPEND grpc_libraries "${TUTTI_GRPC_${library}}")
endforeach()
if(NOT TARGET tutti::grpc)
  add_library(tutti::grpc INTERFACE IMPORTED)
  target_include_directories(tutti::grpc INTERFACE "${TUTTI_GRPC_INCLUDE}")
  target_link_libraries(tutti::grpc INTERFACE ${grpc_libraries})
endif()
