// SPDX-License-Identifier: Apache-2.0
#include "cli/lease_source.hpp"

#include "cli/files.hpp"

namespace dlock::cli {

void LeaseSource::declare(Syntax& syntax) {
    syntax.positional("SOURCE", word_, "-: read the lease id from stdin", Syntax::Need::optional);
    syntax.option("--id-file", "FILE", file_, "The file that holds the lease id; - is stdin");
}

LeaseId LeaseSource::read() const {
    if (!word_.empty() && word_ != "-")
        throw Failure(
            errc::invalid_argument,
            "the lease id is a secret and arguments are not: give it with --id-file FILE or on stdin (-)");
    if (!word_.empty() && file_) throw Failure(errc::invalid_argument, "--id-file and - exclude each other");
    return read_lease_id(file_.value_or(word_));
}

}  // namespace dlock::cli
