// SPDX-License-Identifier: Apache-2.0
#include "store/registry.hpp"

#include <array>

#include "store/memory/memory_store.hpp"
#include "store/redis/redis_store.hpp"
#include "store/sqlite/sqlite_store.hpp"
#include "store/url.hpp"

namespace dlock::store {
namespace {

using Factory = Result<std::unique_ptr<Store>> (*)(const Url&, const StoreEnv&);

struct Row {
    std::string_view scheme;
    Factory open;  ///< null: dlock knows the scheme, but this build has no such store
};

constexpr std::array rows = std::to_array<Row>({
    {"memory", open_memory},
    {"sqlite", open_sqlite},
    {"redis", open_redis},
    {"rediss", open_redis},
    {"redis+sentinel", nullptr},
    {"redis+cluster", nullptr},
    {"redis+quorum", nullptr},
    {"etcd", nullptr},
    {"zookeeper", nullptr},
    {"zk", nullptr},
    {"postgresql", nullptr},
    {"postgres", nullptr},
    {"mysql", nullptr},
    {"mariadb", nullptr},
    {"dynamodb", nullptr},
});

std::string usable_schemes() {
    std::string list;
    for (const Row& row : rows)
        if (row.open != nullptr) list.append(list.empty() ? "" : ", ").append(row.scheme);
    return list;
}

}  // namespace

Result<std::unique_ptr<Store>> open_store(std::string_view url, const StoreEnv& env) {
    const auto parsed = Url::parse(url);
    if (!parsed) return parsed.error();
    for (const Row& row : rows) {
        if (row.scheme != parsed->scheme) continue;
        if (row.open != nullptr) return row.open(*parsed, env);
        return Error(errc::unsupported, "this version of dlock has no store " + parsed->scheme +
                                            "; use one of " + usable_schemes());
    }
    return Error(errc::invalid_argument,
                 "store URL: unknown scheme " + parsed->scheme + "; use one of " + usable_schemes());
}

}  // namespace dlock::store
