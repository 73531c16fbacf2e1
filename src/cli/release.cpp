// SPDX-License-Identifier: Apache-2.0
#include <boost/json/object.hpp>

#include "cli/lease_source.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"

namespace dlock::cli {
namespace {

int perform(const Verb& verb, Call& call) {
    LeaseSource source;
    Common common;
    Syntax syntax(verb);
    source.declare(syntax);
    syntax.common(common);
    if (const auto done = syntax.parse(call)) return *done;
    const LeaseId id = source.read();
    value_or_fail(open_client(common, "dlock").release(id));
    if (common.json) {
        boost::json::object object;
        object["key"] = id.key().text();
        object["publicId"] = id.public_id();
        object["outcome"] = "released";
        print(object);
    }
    return exit_code::ok;
}

}  // namespace

const Verb release_verb = {
    "release", "release [OPTIONS] [-]",
    "Free a lock by its lease id.\n"
    "The id is read from --id-file, from stdin (-) or from the file that DLOCK_LEASE_FILE names.\n"
    "It is a secret, so it is never an argument.",
    "  dlock release --id-file deploy.id\n"
    "  echo \"$id\" | dlock release -\n",
    perform};

}  // namespace dlock::cli
