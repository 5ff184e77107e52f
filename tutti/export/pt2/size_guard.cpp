#include "tutti/export/pt2/size_guard.h"

#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"

namespace tutti::saved_model::pt2 {

// A number, a size, or an operator of one or two others. Truth is 1.
struct SizeGuard::Expression {
  std::string_view op = {};  // of kOperators below; empty for a number, "size"
  int64_t number = 0;
  std::shared_ptr<const Expression> left = {}, right = {};
};

namespace {

using Node = std::shared_ptr<const SizeGuard::Expression>;

constexpr int kMaxDepth = 64;
constexpr size_t kMaxText = 10'000;

// By how loosely they bind; those of a level from the left.
const std::vector<std::vector<std::string_view>> kOperators = {
    {"or"}, {"and"}, {"==", "!=", "<=", ">=", "<", ">"}, {"+", "-"}, {"*", "//", "%"}};

class GuardParser {
 public:
  GuardParser(std::string_view text, const SizeGuard::SizeNumber& number, const std::string& source)
      : whole_(text), rest_(text), number_(number), source_(source) {}

  Node run() {
    if (whole_.size() > kMaxText) fail();
    Node node = level(0, 0);
    skip_space();
    if (!rest_.empty()) fail();
    return node;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::unimplemented,
                str(source_, " is only for inputs of which ", json_text(whole_.substr(0, 200)),
                    " holds, which cannot be checked; export it without what this comes from"));
  }
  void skip_space() {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  Node level(size_t index, int depth);
  Node operand(int depth);
  Node size_of_input();
  int64_t whole_number();

  std::string_view whole_, rest_;
  const SizeGuard::SizeNumber& number_;
  const std::string& source_;
};

Node make(std::string_view op, int64_t number, Node left = {}, Node right = {}) {
  return std::make_shared<SizeGuard::Expression>(SizeGuard::Expression{op, number, std::move(left), std::move(right)});
}

Node GuardParser::level(size_t index, int depth) {
  if (depth > kMaxDepth) fail();
  if (index == kOperators.size()) return operand(depth);
  const bool compares = kOperators[index][0] == "==";
  Node node = level(index + 1, depth);
  for (int count = 0;; ++count) {
    std::string_view found;
    for (const std::string_view op : kOperators[index])
      if (found.empty() && take(op)) found = op;
    if (found.empty()) return node;
    if (count > (compares ? 0 : kMaxDepth)) fail();  // Python's a < b < c is another thing
    node = make(found, 0, node, level(index + 1, depth));
  }
}

int64_t GuardParser::whole_number() {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
  if (error != std::errc() || end == rest_.data()) fail();
  rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
  return number;
}

// L['x'].size()[0], L['args'][0].size()[1]
Node GuardParser::size_of_input() {
  std::string name;
  while (take("[")) {
    if (!name.empty()) name += '_';
    if (take("'")) {
      const size_t end = rest_.find('\'');
      if (end == std::string_view::npos) fail();
      name += rest_.substr(0, end);
      rest_.remove_prefix(end + 1);
    } else {
      name += std::to_string(whole_number());
    }
    if (!take("]")) fail();
  }
  if (!take(".size()[")) fail();
  const int64_t axis = whole_number();
  if (!take("]")) fail();
  return make("size", number_(name, axis));
}

Node GuardParser::operand(int depth) {
  if (depth > kMaxDepth) fail();
  if (take("(")) {
    Node node = level(0, depth + 1);
    if (!take(")")) fail();
    return node;
  }
  if (take("not ")) return make("==", 0, level(2, depth + 1), make("", 0));
  if (take("-")) return make("-", 0, make("", 0), operand(depth + 1));
  if (take("L")) return size_of_input();
  skip_space();
  return make("", whole_number());
}

std::optional<int64_t> evaluate(const SizeGuard::Expression& node, const std::function<int64_t(int number)>& size);

std::optional<int64_t> applied_operator(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+") return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  if (op == "-") return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  if (op == "*") return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<=") return a <= b;
  if (op == ">=") return a >= b;
  if (op == "<") return a < b;
  if (op == ">") return a > b;
  if (op == "or") return a || b;
  if (op == "and") return a && b;
  if (b == 0 || (a == INT64_MIN && b == -1)) return {};
  const bool is_below = a % b != 0 && (a % b < 0) != (b < 0);  // Python rounds down
  return op == "//" ? a / b - is_below : a % b + (is_below ? b : 0);
}

std::optional<int64_t> evaluate(const SizeGuard::Expression& node, const std::function<int64_t(int number)>& size) {
  if (node.op.empty()) return node.number;
  if (node.op == "size") return size(static_cast<int>(node.number));
  const auto left = evaluate(*node.left, size), right = evaluate(*node.right, size);
  if (!left || !right) return {};
  return applied_operator(node.op, *left, *right);
}

}  // namespace

SizeGuard::SizeGuard(std::string_view text, const SizeNumber& number, const std::string& source)
    : text_(text), expression_(GuardParser(text, number, source).run()) {}

bool SizeGuard::holds(const std::function<int64_t(int number)>& size) const {
  return evaluate(*expression_, size).value_or(0) != 0;
}

}  // namespace tutti::saved_model::pt2
