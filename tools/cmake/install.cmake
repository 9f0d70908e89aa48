# `cmake --install` gives headers under include/strata, the libraries, and find_package(strata).

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY STRATA_LIBRARIES)
install(TARGETS strata_flags ${libraries} EXPORT strata-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT strata-targets NAMESPACE strata:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/strata)
foreach(folder runtime tiers kernels model)
  install(DIRECTORY ${folder} DESTINATION include/strata FILES_MATCHING PATTERN "*.h")
endforeach()
configure_package_config_file(tools/cmake/strata-config.cmake.in strata-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/strata)
write_basic_package_version_file(strata-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/strata-config.cmake" "${CMAKE_CURRENT_BINARY_DIR}/strata-config-version.cmake"
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/strata)
