#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

#include "tutti/collectives/dtype.h"

namespace tutti {

// What the members of a group do together. A member's part r is its elements [r * count, (r + 1) * count).
//
//                  input          output         output becomes
enum class CollectiveKind : uint8_t {
  all_reduce,      // count        count          the sum of all inputs
  reduce_scatter,  // count parts  count          of member r: the sum of all parts r
  all_gather,      // count        count parts    part r: the input of member r
  all_to_all,      // count parts  count parts    of member r: part s is part r of member s
  broadcast,       // count        count          the input of member `peer`; other members need none
  send,            // count        none           for member `peer`, which receives
  receive,         // none         count          the input of member `peer`, which sends
  barrier,         // none         none
};

// "all_reduce", …
std::string_view to_string(CollectiveKind kind);

// Where the buffers of a call lie.
enum class BufferPlace : uint8_t {
  host,     // in the memory of the process
  device,   // in that of the group's device: Group::device
  shared,   // in a buffer that Group::allocate_shared gave, at whose start they begin; of an all_reduce in place alone
  nowhere,  // there are none: the members meet and compare the call, and no byte moves
};

// One member's part in a call that all members make (of send and receive: two of them), with equal arguments but for
// the buffers, `where`, and the peers of a send and its receive. An output may be the input; of all_gather and
// reduce_scatter that part of the larger buffer which belongs to this member. all_to_all does not work in place.
struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  Dtype dtype = Dtype::float32;
  int64_t count = 0;  // elements, see above
  const void* input = nullptr;
  void* output = nullptr;
  BufferPlace place = BufferPlace::host;
  int peer = 0;        // a rank
  double divisor = 1;  // of sums of floating-point dtypes: what they are divided by, the number of members for a mean
  const char* name = "";                                         // what is communicated, for messages: "gradients"
  std::source_location where = std::source_location::current();  // the line of user code, for messages
};

// "all_reduce of 12 float32 'gradients' at train.cpp:41", with ", in device memory" or ", in shared memory" behind it.
std::string to_string(const Collective& call);
// The same with another text for the line, where the call is another process's.
std::string to_string(const Collective& call, const std::string& where);

// A send or a receive: the only calls that not all members make.
bool is_between_two(const Collective& call);

// Throws: invalid_argument for a call that member `rank` of `size` cannot make: a null buffer where there is something
// to read or write, a count or peer out of range, a mean of integers, an all_to_all in place.
void check_collective(const Collective& call, int rank, int size);

}  // namespace tutti
