# SPDX-License-Identifier: Apache-2.0
# What an installed Kokkos says about itself, corrected. To be included after
# find_package(Kokkos); also a part of softfold's installed package.
#
# Debian 12's Kokkos (of Trilinos) names the include directory /usr/lib/include, which does not
# exist, as a property of its target; the headers are where its variable Kokkos_INCLUDE_DIRS says.
include_guard()

if(TARGET Kokkos::kokkos AND NOT TARGET Kokkos::kokkoscore)
  get_target_property(_softfold_kokkos_includes Kokkos::kokkos INTERFACE_INCLUDE_DIRECTORIES)
  foreach(_softfold_directory IN LISTS _softfold_kokkos_includes)
    if(NOT IS_DIRECTORY "${_softfold_directory}")
      unset(_softfold_kokkos_includes)
      foreach(_softfold_candidate IN LISTS Kokkos_INCLUDE_DIRS ITEMS /usr/include/trilinos)
        get_filename_component(_softfold_candidate "${_softfold_candidate}" REALPATH)
        if(EXISTS "${_softfold_candidate}/Kokkos_Core.hpp")
          set(_softfold_kokkos_includes "${_softfold_candidate}")
          break()
        endif()
      endforeach()
      if(NOT _softfold_kokkos_includes)
        message(FATAL_ERROR "Kokkos names the directory ${_softfold_directory}, which does not "
                            "exist, and Kokkos_Core.hpp is in none of ${Kokkos_INCLUDE_DIRS}.")
      endif()
      set_target_properties(Kokkos::kokkos PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${_softfold_kokkos_includes}"
        INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${_softfold_kokkos_includes}")
      break()
    endif()
  endforeach()
endif()
