// SPDX-License-Identifier: Apache-2.0
#include <boost/json/object.hpp>

#include "cli/files.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "cli/waiting.hpp"

namespace dlock::cli {
namespace {

namespace json = boost::json;

/// Hands the id over; nothing is held when that fails.
void hand_over(const LeaseId& id, json::object object, const std::optional<std::string>& file,
               const Common& common) {
    if (file)
        replace_file(*file, id.text() + "\n");
    else if (common.json)
        object["id"] = id.text();
    if (common.json)
        print(object);
    else if (!file)
        print(id.text() + "\n");
}

const char* mode_name(Asking::As as) {
    switch (as) {
        case Asking::As::writer:
            return "write";
        case Asking::As::reader:
            return "shared";
        case Asking::As::permit:
            return "permit";
        case Asking::As::mutex:
            break;
    }
    return "exclusive";
}

int perform(const Verb& verb, Call& call) {
    Asking asking;
    std::optional<std::string> file;
    Syntax syntax(verb);
    asking.declare(syntax);
    asking.declare_mode(syntax);
    syntax.option("--id-file", "FILE", file, "Write the lease id to this file (mode 0600), not to stdout");
    if (const auto done = syntax.parse(call)) return *done;
    if (call.command) throw Failure(errc::invalid_argument, "acquire takes no command; that is dlock run");
    asking.check();
    asking.options.renewing = Renewing::manual;
    Events events;
    Client client = open_client(asking.common, "dlock");
    Lease lease = acquire(client, asking, events);
    json::object object;
    object["key"] = asking.key.text();
    object["fence"] = json_of(lease.fence());
    object["mode"] = mode_name(asking.as);
    object["publicId"] = lease.id().public_id();
    object["usableForMs"] =
        std::chrono::duration_cast<std::chrono::milliseconds>(lease.usable_until() - BootClock::now())
            .count();
    try {
        hand_over(lease.id(), std::move(object), file, asking.common);
    } catch (const Failure&) {
        (void)lease.release();
        throw;
    }
    (void)lease.detach();
    return exit_code::ok;
}

}  // namespace

const Verb acquire_verb = {
    "acquire", "acquire [OPTIONS] KEY",
    "Take a lock and print its lease id, for scripts that renew and release by themselves.\n"
    "It ends after its lease unless `dlock renew` extends it.",
    "  id=$(dlock acquire --lease 5m deploy/web) || exit\n"
    "  ./deploy; echo \"$id\" | dlock release -\n"
    "  dlock acquire --wait 30s --id-file deploy.id deploy/web\n"
    "  dlock acquire -n --json deploy/web\n"
    "  dlock acquire --permits 3 --id-file slot.id encoders\n",
    perform};

}  // namespace dlock::cli
