// SPDX-License-Identifier: Apache-2.0
#include "store/redis/redis_store.hpp"

#include "store/redis/dlock_layout.hpp"
#include "store/redis/plain_layout.hpp"

namespace dlock::store {

Result<std::unique_ptr<Store>> open_redis(const Url& url, const StoreEnv& env) {
    Result<redis::Server> server = redis::parse_server(url);
    if (!server) return server.error();
    if (server->layout == redis::Layout::plain)
        return std::unique_ptr<Store>(std::make_unique<redis::PlainLayout>(*std::move(server), env));
    return std::unique_ptr<Store>(std::make_unique<redis::DlockLayout>(*std::move(server), env));
}

}  // namespace dlock::store
