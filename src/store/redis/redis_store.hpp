// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "store/store.hpp"
#include "store/url.hpp"

namespace dlock::store {

/// `redis://` and `rediss://`, see `redis/server.hpp` for the form and `docs/stores/redis.md` for the
/// promises. Makes no network call. The store dies on the loop's thread or after the loop has ended.
Result<std::unique_ptr<Store>> open_redis(const Url& url, const StoreEnv& env);

}  // namespace dlock::store
