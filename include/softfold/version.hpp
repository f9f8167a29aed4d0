// SPDX-License-Identifier: Apache-2.0
/// \file
/// The version of these headers. CMake reads the three numbers from here.
#pragma once

#define SOFTFOLD_VERSION_MAJOR 0
#define SOFTFOLD_VERSION_MINOR 1
#define SOFTFOLD_VERSION_PATCH 0
