#pragma once

#include <functional>
#include <string>

namespace tutti {

// Receives each warning of the library, one line without the newline, from any thread, one call at a time.
using WarningSink = std::function<void(const std::string&)>;

// Writes a warning: "tutti: warning: …" on stderr, or to the sink that was set.
void warn(const std::string& message);

// Replaces where warnings go and returns the sink that was there; an empty sink means stderr.
WarningSink set_warning_sink(WarningSink sink);

}  // namespace tutti
