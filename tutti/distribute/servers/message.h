#pragma once

#include <exception>
#include <string>

#include "tutti/core/bytes.h"
#include "tutti/core/error.h"
#include "tutti/distribute/servers/link.h"

// What coordinator, workers and servers say to each other: a number that tells which message it is, and its parts.
namespace tutti::servers {

enum class Kind : int64_t {
  begin,  // of a run: what has been made; answered
  end,    // of a run: its result, or its error
  call,   // of functions, in order; each is answered, several in one message
  answers,
  pull,          // tensors, with the versions that are known; answered by the others' rows
  pull_changes,  // the same; answered by the rows that have changed since, where these are few
  pull_rows,     // of one tensor; answered by them
  push,          // gradients for an optimizer, or differences; answered
  assign,        // rows of tensors; answered
  read_numbers,  // of an optimizer; answered by them
  write_numbers,
  done,  // answers
  failed,
  skipped,    // of a function that was not called, because one before it failed
  postponed,  // of one that was not called, because those before it took long
};
constexpr int64_t kLastKind = static_cast<int64_t>(Kind::postponed);

// What comes of a gradient: all of a server's rows, or some, outside of which a dense one is zero.
enum class GradientForm : int64_t { whole, rows_of_dense, rows_of_sparse };
constexpr int64_t kLastGradientForm = static_cast<int64_t>(GradientForm::rows_of_sparse);

inline ByteWriter message_of(Kind kind) {
  ByteWriter writer;
  writer.number(static_cast<int64_t>(kind));
  return writer;
}
inline Kind read_kind(ByteReader& reader) { return static_cast<Kind>(reader.number_in(0, kLastKind)); }

// A server that cannot be reached: what it kept is lost, and so is the training.
class ServerLost : public Error {
 public:
  explicit ServerLost(const Error& error)
      : Error(ErrorCode::unavailable, std::string(error.what()) +
                                          ", and the variables that it kept with it: start all tasks again, which go "
                                          "on from the last checkpoint") {}
};

// Errors travel by their code and text; what is no tutti::Error becomes `internal`, its text behind `whose`. A lost
// server stays one.
void write_error(ByteWriter& writer, const std::exception_ptr& error, const std::string& whose);
std::exception_ptr read_error(ByteReader& reader);

// Sends a request and reads the answer. Throws: what a failed one says; as Link::receive.
void require_done(ByteReader& answer);

}  // namespace tutti::servers
