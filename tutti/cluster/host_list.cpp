#include "tutti/cluster/host_list.h"

#include <algorithm>
#include <charconv>

#include "tutti/cluster/cluster_spec.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::cluster {
namespace {

// Reads a text from front to back.
class HostReader {
 public:
  explicit HostReader(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(str("'", c, "' was expected"));
  }
  // Up to one of these characters, which stays.
  std::string_view until(std::string_view stops) {
    const size_t begin = at_;
    at_ = std::min(text_.find_first_of(stops, at_), text_.size());
    return text_.substr(begin, at_ - begin);
  }
  // A number of at most nine digits, as it is written.
  std::string_view digits() {
    const size_t begin = at_;
    while (!at_end() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (at_ == begin || at_ - begin > 9) fail("a number of one to nine digits was expected");
    return text_.substr(begin, at_ - begin);
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::invalid_argument, str("\"", text_.substr(0, 80), "\": ", what, " at character ", at_));
  }
  // Before anything is stored.
  void check_room(size_t now, int64_t more) const {
    if (static_cast<int64_t>(now) + more > kMaxTasks)
      fail(str("these are more than ", kMaxTasks, ", the most that a cluster may have,"));
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

int to_number(std::string_view digits) {
  int number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

void append_range(std::vector<std::string>& hosts, std::string_view prefix, std::string_view first,
                  std::string_view last, std::string_view suffix) {
  for (int i = to_number(first); i <= to_number(last); ++i) {
    std::string number = std::to_string(i);
    if (number.size() < first.size()) number.insert(0, first.size() - number.size(), '0');
    hosts.push_back(str(prefix, number, suffix));
  }
}

int64_t length_of(std::string_view first, std::string_view last) {
  return std::max<int64_t>(0, int64_t{to_number(last)} - to_number(first) + 1);
}

void append_slurm_ranges(std::vector<std::string>& hosts, std::string_view prefix, HostReader& reader) {
  do {
    const std::string_view first = reader.digits();
    const std::string_view last = reader.take('-') ? reader.digits() : first;
    reader.check_room(hosts.size(), length_of(first, last));
    append_range(hosts, prefix, first, last, "");
  } while (reader.take(','));
  reader.expect(']');
}

bool has_port(std::string_view host) { return host.rfind(':') != std::string_view::npos && !host.ends_with(']'); }

}  // namespace

std::vector<std::string> expand_slurm_hosts(std::string_view text) {
  std::vector<std::string> hosts;
  HostReader reader(text);
  while (!reader.at_end()) {
    const std::string_view prefix = reader.until(",[]");
    if (prefix.empty()) reader.fail("the name of a host was expected");
    if (reader.take('[')) {
      append_slurm_ranges(hosts, prefix, reader);
    } else {
      reader.check_room(hosts.size(), 1);
      hosts.emplace_back(prefix);
    }
    if (reader.at_end()) break;
    reader.expect(',');
    if (reader.at_end()) reader.fail("the name of a host was expected");
  }
  return hosts;
}

std::vector<int> expand_slurm_counts(std::string_view text) {
  std::vector<int> counts;
  HostReader reader(text);
  do {
    const int count = to_number(reader.digits());
    int times = 1;
    if (reader.take('(')) {
      reader.expect('x');
      times = to_number(reader.digits());
      reader.expect(')');
    }
    reader.check_room(counts.size(), times);
    counts.insert(counts.end(), static_cast<size_t>(times), count);
  } while (reader.take(','));
  if (!reader.at_end()) reader.fail("',' was expected");
  return counts;
}

std::vector<std::string> expand_braces(std::string_view text, int default_port) {
  std::vector<std::string> hosts;
  HostReader reader(text);
  do {
    const std::string_view prefix = reader.until(",{}");
    const size_t before = hosts.size();
    if (reader.take('{')) {
      const std::string_view first = reader.digits();
      reader.expect('.');
      reader.expect('.');
      const std::string_view last = reader.digits();
      reader.expect('}');
      reader.check_room(hosts.size(), length_of(first, last));
      append_range(hosts, prefix, first, last, reader.until(",{}"));
    } else {
      if (prefix.empty()) reader.fail("the name of a host was expected");
      reader.check_room(hosts.size(), 1);
      hosts.emplace_back(prefix);
    }
    for (size_t i = before; i < hosts.size(); ++i)
      if (!has_port(hosts[i])) hosts[i] += str(':', default_port);
  } while (reader.take(','));
  if (!reader.at_end()) reader.fail("',' was expected");
  return hosts;
}

}  // namespace tutti::cluster
