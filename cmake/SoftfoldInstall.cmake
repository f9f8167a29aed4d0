# SPDX-License-Identifier: Apache-2.0
# Installs the backend's library, the headers, a CMake package whose components are backends,
# and softfold-<backend>.pc. Two backends install side by side under one prefix: what is named
# after a backend is its own, the rest is the same for all.
include(CMakePackageConfigHelpers)

set(softfold_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/softfold")
set(softfold_target softfold_${SOFTFOLD_BACKEND})

install(TARGETS ${softfold_target} EXPORT softfold-${SOFTFOLD_BACKEND}-targets
        RUNTIME COMPONENT softfold_runtime
        LIBRARY COMPONENT softfold_runtime NAMELINK_COMPONENT softfold_development
        ARCHIVE COMPONENT softfold_development)
install(DIRECTORY include/softfold DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        COMPONENT softfold_development)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/softfold"
        COMPONENT softfold_runtime)

# A static library leaves its dependencies to the program that links it; a shared one carries
# them. By CMake package here, by pkg-config name in the backend's SOFTFOLD_PC_REQUIRES.
set(softfold_dependencies_cpu TBB)
if(SOFTFOLD_HIP_ON_HOST)
  set(softfold_dependencies_hip TBB Threads)
endif()
set(softfold_dependencies_kokkos Kokkos)
# A backend's own public header may need its dependency from a shared library too.
set(softfold_shared_dependencies_kokkos Kokkos)
get_property(softfold_pc_requires GLOBAL PROPERTY SOFTFOLD_PC_REQUIRES)
get_target_property(softfold_type ${softfold_target} TYPE)
if(softfold_type STREQUAL "STATIC_LIBRARY")
  get_property(softfold_kernels_need GLOBAL PROPERTY SOFTFOLD_KERNELS_NEED)
  set(softfold_dependencies ZLIB ${softfold_dependencies_${SOFTFOLD_BACKEND}} ${softfold_kernels_need})
  set(softfold_pc_private "")
else()
  set(softfold_dependencies ${softfold_shared_dependencies_${SOFTFOLD_BACKEND}})
  set(softfold_pc_private .private)
  if(CMAKE_EXECUTABLE_FORMAT STREQUAL "ELF")
    set(softfold_map "${PROJECT_SOURCE_DIR}/cmake/softfold.map")
    target_link_options(${softfold_target} PRIVATE "LINKER:--version-script=${softfold_map}")
    set_property(TARGET ${softfold_target} APPEND PROPERTY LINK_DEPENDS "${softfold_map}")
  endif()
endif()

# The CMake package.
install(EXPORT softfold-${SOFTFOLD_BACKEND}-targets NAMESPACE softfold::
        DESTINATION "${softfold_package_dir}" COMPONENT softfold_development)
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/softfold-${SOFTFOLD_BACKEND}-dependencies.cmake"
     "set(_softfold_dependencies ${softfold_dependencies})\n")
if(SOFTFOLD_BACKEND STREQUAL "kokkos")
  install(FILES cmake/SoftfoldKokkos.cmake RENAME softfold-kokkos-corrections.cmake
          DESTINATION "${softfold_package_dir}" COMPONENT softfold_development)
endif()
configure_package_config_file(cmake/softfoldConfig.cmake.in softfoldConfig.cmake
                              INSTALL_DESTINATION "${softfold_package_dir}")
write_basic_package_version_file(softfoldConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/softfoldConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/softfoldConfigVersion.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/softfold-${SOFTFOLD_BACKEND}-dependencies.cmake"
        DESTINATION "${softfold_package_dir}" COMPONENT softfold_development)

# The .pc file. Its prefix is relative to the file itself, so that an installed tree can be
# moved and `cmake --install --prefix` works.
list(JOIN softfold_pc_requires " " softfold_pc_requires)
# Flags of what has no .pc file of its own.
get_property(softfold_pc_cflags GLOBAL PROPERTY SOFTFOLD_PC_CFLAGS)
list(JOIN softfold_pc_cflags " " softfold_pc_cflags)
get_property(softfold_pc_libs GLOBAL PROPERTY SOFTFOLD_PC_LIBS)
list(JOIN softfold_pc_libs " " softfold_pc_libs)
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(softfold_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH softfold_pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" softfold_pc_prefix "\${pcfiledir}/${softfold_pc_prefix}")
endif()
cmake_path(APPEND softfold_pc_includedir "\${prefix}" "${CMAKE_INSTALL_INCLUDEDIR}")
cmake_path(APPEND softfold_pc_libdir "\${prefix}" "${CMAKE_INSTALL_LIBDIR}")
configure_file(cmake/softfold.pc.in softfold-${SOFTFOLD_BACKEND}.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/softfold-${SOFTFOLD_BACKEND}.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT softfold_development)
