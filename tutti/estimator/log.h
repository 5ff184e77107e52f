#pragma once

#include <functional>
#include <string>

namespace tutti::estimator {

// Receives each line that a run says about itself ("loss = 0.14477473, step = 0"), one call at a time.
using LogSink = std::function<void(const std::string&)>;

// Writes a line: "tutti: …" on stderr, or to the sink that was set.
void log_info(const std::string& line);

// Replaces where lines go and returns the sink that was there; an empty sink means stderr. TF:
// tf.logging.set_verbosity.
LogSink set_log_sink(LogSink sink);

// The shortest decimal that gives back the same float32, as TensorFlow's lines have it: "0.14477473", "3", "nan".
std::string number_text(double value);

}  // namespace tutti::estimator
