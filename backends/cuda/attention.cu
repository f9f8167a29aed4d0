// SPDX-License-Identifier: Apache-2.0
#include "attention_run.hpp"

#include <gpu/attention.inl>
