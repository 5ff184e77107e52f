#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/function_ref.h"

namespace tutti {

// Reads JSON (RFC 8259) of a form that the caller knows, from front to back, in one pass and without a tree: memory is
// what the caller keeps. For text from anywhere. Every function throws data_loss with the source's name and the byte
// where the text is not what was asked for, is not JSON, or is not UTF-8.
class JsonReader {
 public:
  // `source` names the text in messages. Both must outlive the reader.
  JsonReader(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  // Calls member(key) for each member; it must read the value. A key lives until its object ends; one that comes twice
  // is an error.
  void object(FunctionRef<void(std::string_view key)> member);
  // A member that an object may have; read() must read the value.
  struct Member {
    std::string_view key;
    FunctionRef<void()> read;
  };
  // Reads an object of these members, at most 64, in any order, each at most once; fastest in this order. Another key
  // is an error that tells of which object it is.
  void object(std::string_view what, std::initializer_list<Member> members);
  // Calls element() for each element; it must read the value.
  void array(FunctionRef<void()> element);
  // The same in two steps, by which an array can be read from any of its elements on: goes to the first element, false
  // if there is none; reads the element here and those behind it, until the array ends (true) or one begins at or
  // behind the byte `stop` (false).
  bool begin_array();
  bool elements_before(size_t stop, FunctionRef<void()> element);
  size_t at() const { return at_; }
  void go_to(size_t byte) { at_ = byte; }
  std::string text() { return std::string(text_view()); }
  // The same, valid until the next text is read.
  std::string_view text_view();
  // A number without fraction and exponent that fits.
  int64_t integer();
  double number();
  // Whether text comes next; whether an array does.
  bool at_text();
  bool at_array();
  // Reads a value of any kind, of at most 64 objects and arrays in one another.
  void skip(int max_depth = 64);
  // Nothing but white space is left.
  void end();

  // "SOURCE: byte 17: WHAT"
  [[noreturn]] void fail(const std::string& what, ErrorCode code = ErrorCode::data_loss) const;

 private:
  char peek();
  void expect(char c);
  bool next_or(char closing);
  [[noreturn]] void fail_expected(const char* what) const;
  void decode_rest(std::string& out);
  void escape(std::string& out);
  uint32_t four_digits();
  std::string_view number_text();
  void check_keys(size_t first);
  bool skip_key(std::string_view key);
  const Member* find_member(std::string_view what, std::initializer_list<Member> members, const Member* next);

  std::string_view text_;
  std::string_view source_;
  size_t at_ = 0;
  std::vector<std::string_view> keys_;    // of the objects that are open
  std::deque<std::string> decoded_keys_;  // those among them that have escapes
  std::string scratch_;
};

// Whether the bytes are UTF-8 as RFC 3629 has it: no surrogates, nothing longer than it needs to be.
bool is_utf8(std::string_view bytes);

// `text`, which must be UTF-8, as JSON, in quotes.
std::string json_text(std::string_view text);
// The shortest number that reads back as `value`, with a fraction or an exponent. `value` must be finite.
std::string json_number(double value);

}  // namespace tutti
