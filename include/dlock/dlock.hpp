// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything except `dlock/asio.hpp`.
#include "dlock/check.hpp"         // IWYU pragma: export
#include "dlock/client.hpp"        // IWYU pragma: export
#include "dlock/election.hpp"      // IWYU pragma: export
#include "dlock/error.hpp"         // IWYU pragma: export
#include "dlock/inspect.hpp"       // IWYU pragma: export
#include "dlock/key.hpp"           // IWYU pragma: export
#include "dlock/lease.hpp"         // IWYU pragma: export
#include "dlock/lease_id.hpp"      // IWYU pragma: export
#include "dlock/mutex.hpp"         // IWYU pragma: export
#include "dlock/observer.hpp"      // IWYU pragma: export
#include "dlock/once.hpp"          // IWYU pragma: export
#include "dlock/options.hpp"       // IWYU pragma: export
#include "dlock/result.hpp"        // IWYU pragma: export
#include "dlock/scan.hpp"          // IWYU pragma: export
#include "dlock/semaphore.hpp"     // IWYU pragma: export
#include "dlock/shared_mutex.hpp"  // IWYU pragma: export
#include "dlock/time.hpp"          // IWYU pragma: export
