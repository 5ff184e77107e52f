# Finds LibTorch and describes it as tutti::torch, a SYSTEM target whose headers raise no warnings of ours.
find_package(Torch 2.11 REQUIRED)

if(NOT TARGET tutti::torch)
  add_library(tutti::torch INTERFACE IMPORTED)
  target_link_libraries(tutti::torch INTERFACE torch)
endif()
