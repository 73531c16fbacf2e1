// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "dlock/result.hpp"
#include "store/store.hpp"

namespace dlock::store {

/// Makes the store of a URL: checks scheme, parameters and values; no network call, no file made.
/// `registry.cpp` is the one file that names concrete stores.
Result<std::unique_ptr<Store>> open_store(std::string_view url, const StoreEnv& env);

}  // namespace dlock::store
