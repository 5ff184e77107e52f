# cmake --install: the library, its public headers, and the package that find_package(tutti) reads.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tutti")

install(TARGETS tutti tutti_training tutti_strategies EXPORT tuttiTargets)
install(TARGETS tutti_command)
foreach(module IN ITEMS tutti_mpi tutti_cuda)
  if(TARGET ${module})
    install(TARGETS ${module} OPTIONAL LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  endif()
endforeach()
install(CODE "set(source \"${CMAKE_CURRENT_SOURCE_DIR}\")\nset(include \"${CMAKE_INSTALL_INCLUDEDIR}\")")
install(SCRIPT cmake/install_headers.cmake)
install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION "${package_dir}")

configure_package_config_file(cmake/tuttiConfig.cmake.in tuttiConfig.cmake INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(tuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  cmake/TuttiGrpc.cmake
  cmake/TuttiTorch.cmake
  "${CMAKE_CURRENT_BINARY_DIR}/tuttiConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/tuttiConfigVersion.cmake"
  DESTINATION "${package_dir}")
