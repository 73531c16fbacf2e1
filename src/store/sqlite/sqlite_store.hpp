// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "store/store.hpp"
#include "store/url.hpp"

namespace dlock::store {

/// `sqlite:/path/of/locks.db`: the processes of this host that can open the file share its locks. See
/// docs/stores/sqlite.md. Touches no file; the database is made at the first call that writes.
Result<std::unique_ptr<Store>> open_sqlite(const Url& url, const StoreEnv& env);

}  // namespace dlock::store
