// SPDX-License-Identifier: Apache-2.0
#include "store/owner_json.hpp"

#include <array>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "core/text.hpp"

namespace dlock::store {
namespace {

struct Field {
    const char* name;
    std::string Owner::*member;
};
constexpr std::array<Field, 6> texts{{
    {"service", &Owner::service},
    {"host", &Owner::host},
    {"instance", &Owner::instance},
    {"biz_id", &Owner::biz_id},
    {"txid", &Owner::txid},
    {"note", &Owner::note},
}};

}  // namespace

std::string to_json(const Owner& owner) {
    boost::json::object object;
    for (const auto& [name, member] : texts) {
        const std::string& text = owner.*member;
        if (text.empty()) continue;
        // Bytes that are not UTF-8 would make the whole object unreadable.
        object.emplace(name, core::valid_utf8(text) ? text : core::escape(text));
    }
    if (owner.pid != 0) object.emplace("pid", owner.pid);
    return boost::json::serialize(object);
}

Owner owner_from_json(std::string_view text) {
    Owner owner;
    boost::json::error_code failed;
    const boost::json::value value =
        boost::json::parse(boost::json::string_view(text.data(), text.size()), failed);
    const boost::json::object* object = failed ? nullptr : value.if_object();
    if (object == nullptr) return owner;
    for (const auto& [name, member] : texts)
        if (const auto* found = object->if_contains(name))
            if (const auto* string = found->if_string())
                (owner.*member).assign(string->data(), string->size());
    if (const auto* found = object->if_contains("pid"))
        if (const auto* pid = found->if_int64()) owner.pid = *pid;
    return owner;
}

}  // namespace dlock::store
