// SPDX-License-Identifier: Apache-2.0
#include <boost/json/object.hpp>

#include "cli/lease_source.hpp"
#include "cli/output.hpp"
#include "cli/units.hpp"
#include "cli/verbs.hpp"

namespace dlock::cli {
namespace {

int perform(const Verb& verb, Call& call) {
    LeaseSource source;
    Common common;
    std::optional<std::string> lease_text;
    Syntax syntax(verb);
    source.declare(syntax);
    syntax.option("--lease", "DURATION", lease_text, "How long it lasts from now; default 30s");
    syntax.common(common);
    if (const auto done = syntax.parse(call)) return *done;
    const auto lease =
        lease_text ? parse_duration("--lease", *lease_text, Least::more_than_zero) : AcquireOptions{}.lease;
    const LeaseId id = source.read();
    value_or_fail(open_client(common, "dlock").renew(id, lease));
    if (common.json) {
        boost::json::object object;
        object["key"] = id.key().text();
        object["publicId"] = id.public_id();
        object["leaseMs"] = lease.count();
        print(object);
    }
    return exit_code::ok;
}

}  // namespace

const Verb renew_verb = {
    "renew", "renew [OPTIONS] [-]",
    "Extend a lock by its lease id.\n"
    "The id is read from --id-file, from stdin (-) or from the file that DLOCK_LEASE_FILE names.\n"
    "It is a secret, so it is never an argument.",
    "  dlock renew --id-file deploy.id --lease 5m\n"
    "  echo \"$id\" | dlock renew -\n",
    perform};

}  // namespace dlock::cli
