// SPDX-License-Identifier: Apache-2.0
#include <gpu/sample_parts.inl>
