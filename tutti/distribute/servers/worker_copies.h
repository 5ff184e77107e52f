#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "tutti/distribute/servers/server_requests.h"
#include "tutti/tensor/remote_reads.h"

namespace tutti::servers {

// A worker's copies of variables, in the memory of its own ones. In a function each variable is brought once: those
// that the function read before, when it begins; others when an op is about to read them; of a table that is only
// looked up, the rows that are. Of a variable that lies elsewhere there are the rows that the function has looked up,
// and no copy. So all that a function reads of a variable is of one moment, until it has the variable updated: what it
// reads then is brought anew. One that makes several steps may say when the next moment of all of them is.
class WorkerCopies final : public RemoteReads {
 public:
  WorkerCopies(const ServedState& state, const std::vector<std::unique_ptr<Link>>& servers, ServerRequests::Renew renew)
      : state_(state), requests_(servers, std::move(renew)) {}

  struct Call {
    int function = 0;
    int64_t number = -1;
  };
  // A call of a function. Calls below `first_open` are over. Brings nothing for one that has read nothing before.
  // `next`: the call after it, where that is known by now, so that servers can send what it is to read along with the
  // last update of this one.
  void begin(Call call, int64_t first_open, std::optional<Call> next = {});
  // Pushes what the function wrote to buffers. Throws: failed_precondition where it wrote to a trained variable in
  // place; as push.
  void finish();
  // In place of finish, of a function that has thrown: what it wrote here is brought anew.
  void abandon();
  // Within a call: as finish, and then all is brought anew. What was computed before may not be differentiated after.
  void next_moment();

  // Ranks: none, others may read meanwhile. The updates that a function makes are numbered in the order of its calls.
  void push(int optimizer, std::span<const at::Tensor> gradients, std::span<const at::Tensor> variables, double scale);

  void read(const at::Tensor& tensor) override;
  std::optional<LookedUpRows> read_rows(const at::Tensor& table, const at::Tensor& ids) override;

 private:
  struct Copy {
    int64_t whole_in = 0, rows_in = 0;  // the moment of which it was brought last
    std::vector<bool> has_row = {};
    std::vector<int64_t> rows = {};                   // that were brought then
    Bytes values = {};                                // of these, where there is no copy of the whole
    std::unordered_map<int64_t, size_t> places = {};  // of the rows in `values`
    bool is_stale = false;                            // it was updated since
    Bytes begun = {};                                 // of a buffer: as it was brought
    uint64_t writes = 0;                              // of a trained variable, when the moment began
  };
  // Of a variable: its gradient, and the rows of it that travel; of a buffer: what was brought, and what it is now.
  struct Pushed {
    int number;
    at::Tensor gradient = {};
    std::vector<int64_t> rows = {};
    Bytes before = {};
    at::Tensor now = {};
  };

  Copy& copy(int number);
  void bring(std::span<const int> numbers);
  void bring_rows(int number, std::span<const int64_t> rows, FunctionRef<char*(int64_t row)> place);
  LookedUpRows look_up(int number, std::vector<int64_t> rows);
  [[noreturn]] void refuse_whole(int number) const;
  void begin_moment();
  void begin_moment_once();
  void push_buffers();
  bool was_written(int number);
  void note_update(int number);
  std::vector<int> wanted_by(int function);
  bool is_whole(int number) { return copy(number).whole_in == moment_; }
  std::optional<LongMessage> push_message(int server, int optimizer, double scale, std::span<const Pushed> pushed,
                                          std::span<const int> wanted);
  void append_gradient(LongMessage& message, int server, const Pushed& pushed) const;
  void append_buffer(LongMessage& message, int server, const Pushed& pushed) const;
  std::vector<int64_t> rows_to_push(int number, const at::Tensor& gradient);
  void send_push(int optimizer, double scale, std::span<const Pushed> pushed);

  const ServedState& state_;
  ServerRequests requests_;
  std::recursive_mutex mutex_;  // of what follows; what is done under it may be ops
  KnownVersions known_;
  std::vector<Copy> copies_;
  std::unordered_map<int, std::set<int>> read_by_;  // whole variables, by function
  std::unordered_map<int, int64_t> pushes_of_;      // of the last call of each function
  // What servers sent along with an update, in answers of these, for the next call: the values of those tensors.
  struct Ahead {
    std::vector<int> tensors = {};
    std::map<int, std::pair<Incoming, uint64_t>> answers = {};  // by server; where the values begin
  };
  Ahead ahead_;
  Call call_;
  std::optional<Call> next_;
  int64_t first_open_ = 0, num_pushed_ = 0;
  int64_t moment_ = 0;
  bool has_begun_ = false;  // the moment: with the first tensor that the call has to do with
};

}  // namespace tutti::servers
