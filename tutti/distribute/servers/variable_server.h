#pragma once

#include <exception>
#include <map>
#include <span>
#include <vector>

#include "tutti/distribute/servers/changed_rows.h"
#include "tutti/distribute/servers/long_message.h"
#include "tutti/distribute/servers/served_state.h"

namespace tutti::servers {

// Keeps one server's rows of all variables, and makes the updates. One thread answers all requests, one after the
// other, so nobody sees a half of one. An update counts once for each call of a function, which is known by its number
// however often and wherever it is called again.
class VariableServer {
 public:
  VariableServer(ServedState& state, int server) : state_(state), server_(server) {}

  // The answer, which may be an error. Its parts are the values, until the next one. Requests are not believed.
  LongMessage answer(const Incoming& request);

 private:
  // Whose update it is. Calls below `first_open` are over, and count no more.
  struct Push {
    int64_t call, number, first_open;
  };

  void answer(Kind kind, ByteReader& reader, const Incoming& request, LongMessage& message);
  int read_tensor_number(ByteReader& reader) const;
  void pull(ByteReader& reader, LongMessage& message);
  void pull_one(ByteReader& reader, LongMessage& message);
  void pull_changes(ByteReader& reader, LongMessage& message);
  void pull_rows(ByteReader& reader, LongMessage& message);
  void append_values(LongMessage& message, int number, std::span<const int64_t> rows);
  // What is pulled with it is what it has made of it.
  void push(ByteReader& reader, const Incoming& request, LongMessage& message);
  bool is_new(const Push& push);
  void update(ByteReader& reader, const Incoming& request, int optimizer, double scale);
  void write_buffers(ByteReader& reader);
  ServedGradient read_gradient(ByteReader& reader, const Incoming& request, int number);
  at::Tensor read_rows_of(ByteReader& reader, int number, const at::Tensor& others);
  void assign(ByteReader& reader);
  // Before the update. Throws: as the optimizer.
  void note_gradient(int optimizer, int variable, const ServedGradient& gradient, double scale);
  void note_change(int number);

  ServedState& state_;
  const int server_;
  struct Tracked {
    uint64_t version = 1;
    ChangedRows changed = {};
  };
  Tracked& tracked(int number);
  std::vector<Tracked> tracked_;  // the tensors
  // Of calls that are open: how many of their updates were seen, and what the last of these threw.
  struct Made {
    int64_t count = 0;
    std::exception_ptr failure = {};
  };
  std::map<int64_t, Made> made_;
  int64_t first_open_ = 0;
};

}  // namespace tutti::servers
