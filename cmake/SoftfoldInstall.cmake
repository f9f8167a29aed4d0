# SPDX-License-Identifier: Apache-2.0
# Installs the backend's library, the headers, a CMake package whose components are backends,
# and softfold-<backend>.pc. Two backends install side by side under one prefix.
include(CMakePackageConfigHelpers)

set(softfold_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/softfold")
set(softfold_target softfold_${SOFTFOLD_BACKEND})

install(TARGETS ${softfold_target} EXPORT softfold-${SOFTFOLD_BACKEND}-targets)
install(DIRECTORY include/softfold DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(EXPORT softfold-${SOFTFOLD_BACKEND}-targets NAMESPACE softfold::
        DESTINATION "${softfold_package_dir}")

configure_package_config_file(cmake/softfoldConfig.cmake.in softfoldConfig.cmake
                              INSTALL_DESTINATION "${softfold_package_dir}")
write_basic_package_version_file(softfoldConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/softfoldConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/softfoldConfigVersion.cmake"
        DESTINATION "${softfold_package_dir}")

# What a static library needs beside itself; a shared one carries it.
get_property(softfold_pc_requires GLOBAL PROPERTY SOFTFOLD_PC_REQUIRES)
configure_file(cmake/softfold.pc.in softfold-${SOFTFOLD_BACKEND}.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/softfold-${SOFTFOLD_BACKEND}.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
