#include "call_maker.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "tutti/core/str.h"

namespace tutti::fuzz {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts{""};
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

bool is_tensor(const c10::Argument& argument) {
  const std::string text = argument.real_type()->str();
  return text == "Tensor" || text == "Tensor?";
}
bool is_tensor_list(const c10::Argument& argument) {
  const std::string text = argument.real_type()->str();
  return text == "Tensor[]" || text == "Tensor?[]";
}

}  // namespace

struct CallMaker::Word {
  std::string letters;
  bool absent = false;
  Elements elements = Elements::any;
  int64_t below = 2;
  std::optional<at::ScalarType> dtype = {};
};

CallMaker::CallMaker(Dice& dice, Program& program, const std::map<int, Tensor>& slots, const Habits& habits)
    : dice_(dice), program_(program), slots_(slots), habits_(habits) {}

std::optional<Statement> CallMaker::make(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  op_ = op.operator_name().name.substr(6);
  operands_ = operands_of(op_);
  letters_.clear();
  first_slot_ = -1;
  first_out_ = true;
  choose_words();
  Statement statement{.op = op};
  for (const c10::Argument& argument : schema.arguments()) {
    if (argument.is_out()) {
      statement.arguments.push_back(is_tensor_list(argument) ? out_tensors(statement)
                                                             : Argument{Argument::Kind::tensor, {out_tensor()}});
    } else if (is_tensor(argument)) {
      statement.arguments.push_back({Argument::Kind::tensor, {tensor(argument, is_written(argument))}});
    } else if (is_tensor_list(argument)) {
      statement.arguments.push_back(tensor_list(argument, is_written(argument)));
    } else if (auto value = constant(argument)) {
      statement.arguments.push_back({Argument::Kind::constant, {}, std::move(*value)});
    } else {
      return {};
    }
  }
  statement.result = program_.next_slot;
  program_.next_slot += Program::kResults;
  return statement;
}

// --- tensors ---------------------------------------------------------------------------------------------------------

void CallMaker::choose_words() {
  words_.clear();
  next_word_ = 0;
  if (operands_ && !operands_->tensors.empty())
    for (const std::string& word : split(dice_.pick(split(operands_->tensors, '|')), ' ')) words_.push_back(word);
}

std::optional<CallMaker::Word> CallMaker::next_word() {
  if (next_word_ >= words_.size()) return {};
  std::string text = words_[next_word_++];
  Word word;
  if (text == "_") {
    word.absent = true;
    return word;
  }
  if (const size_t colon = text.find(':'); colon != std::string::npos) {
    const std::string kind = text.substr(colon + 1);
    text.resize(colon);
    if (kind == "+") word.elements = Elements::positive;
    if (kind == "f") word.elements = Elements::fractions;
    if (kind == "@") word.elements = Elements::definite;
    if (kind == "b") word.dtype = at::kBool;
    if (kind[0] == '<') {
      word.elements = Elements::indices;
      word.dtype = at::kLong;
      word.below = size_of(kind[1]);
    }
  }
  word.letters = text;
  return word;
}

int64_t CallMaker::size_of(char letter) {
  if (std::isdigit(letter)) return letter - '0';
  const auto found = letters_.find(letter);
  if (found != letters_.end()) return found->second;
  int64_t size =
      std::isupper(letter) ? dice_.between(4, 8) : dice_.pick<int64_t>({0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 11});
  if (size == 0 && !dice_.chance(40)) size = 3;
  if (habits_.huge && std::islower(letter) && letters_.empty()) size = dice_.pick<int64_t>({1000, 3000, 20000});
  return letters_[letter] = size;
}

Sizes CallMaker::sizes_of(const Word& word) {
  Sizes sizes;
  for (const char letter : word.letters) sizes.push_back(size_of(letter));
  if (habits_.odd && !sizes.empty() && dice_.chance(12))
    sizes[static_cast<size_t>(dice_.below(static_cast<int64_t>(sizes.size())))] = dice_.between(0, 5);
  return sizes;
}

// Sizes for a further operand of an op of which nothing is said.
Sizes CallMaker::like_first() {
  Sizes sizes = first_;
  if (dice_.chance(70)) return sizes;
  if (habits_.odd && !sizes.empty() && dice_.chance(30))
    sizes[static_cast<size_t>(dice_.below(static_cast<int64_t>(sizes.size())))] = dice_.between(0, 9);
  for (int64_t& size : sizes)
    if (dice_.chance(30)) size = 1;
  if (!sizes.empty() && dice_.chance(40)) sizes.erase(sizes.begin());
  return sizes;
}

bool CallMaker::bind(const Word& word, at::IntArrayRef sizes) {
  if (sizes.size() != word.letters.size()) return false;
  auto letters = letters_;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const char letter = word.letters[i];
    if (std::isdigit(letter) ? sizes[i] != letter - '0'
                             : !letters.emplace(letter, sizes[i]).second && letters[letter] != sizes[i])
      return false;
    if (std::isupper(letter) && sizes[i] < 3) return false;
  }
  letters_ = std::move(letters);
  return true;
}

// An earlier result that fits; -1 for none.
int CallMaker::matching_slot(const Word& word) {
  if (slots_.empty() || word.elements != Elements::any) return -1;
  std::vector<int> all;
  for (const auto& [slot, tensor] : slots_)
    if (tensor.defined() && tensor.numel() < 100000 && (!word.dtype || tensor.scalar_type() == *word.dtype))
      all.push_back(slot);
  for (int attempt = 0; attempt < 4 && !all.empty(); ++attempt) {
    // The later ones more often.
    const int slot = all[static_cast<size_t>(
        std::max(dice_.below(static_cast<int64_t>(all.size())), dice_.below(static_cast<int64_t>(all.size()))))];
    if (bind(word, slots_.at(slot).sizes())) return slot;
  }
  return -1;
}

std::vector<int> CallMaker::random_layout(const Sizes& sizes) {
  std::vector<int> axes(sizes.size(), -1);
  if (program_.place == Place::replicas) return axes;
  for (size_t d = 0; d < program_.mesh.size(); ++d) {
    if (sizes.empty() || dice_.chance(25)) continue;
    int& axis = axes[static_cast<size_t>(dice_.below(static_cast<int64_t>(sizes.size())))];
    if (axis < 0) axis = static_cast<int>(d);
  }
  return axes;
}

int CallMaker::add_input(const Sizes& sizes, at::ScalarType dtype, Elements elements, int64_t below) {
  Input input{.slot = program_.next_slot++, .sizes = sizes, .dtype = dtype, .elements = elements, .below = below};
  input.step = dice_.pick<int64_t>({1, 3, 7, 11, 13, 17});
  input.start = dice_.below(31);
  if (dice_.chance(10) && (elements == Elements::any || elements == Elements::positive) && dtype != at::kByte &&
      dtype != at::kChar)
    input.scale = habits_.huge ? 64 : 8;
  if (elements == Elements::definite && (sizes.size() < 2 || sizes.back() != sizes[sizes.size() - 2]))
    input.elements = Elements::any;
  if (dice_.chance(30)) input.strides = dice_.pick({Strides::transposed, Strides::channels_last});
  const bool differentiable = at::isFloatingType(dtype) || at::isComplexType(dtype);
  input.requires_grad = habits_.gradients && differentiable && dice_.chance(70);
  input.axes = random_layout(sizes);
  input.plain = program_.place != Place::replicas && !input.requires_grad && dice_.chance(5);
  if (!input.plain && program_.place != Place::replicas && !program_.mesh.empty() && differentiable &&
      dice_.chance(4)) {
    const int dimension = static_cast<int>(dice_.below(static_cast<int64_t>(program_.mesh.size())));
    if (std::find(input.axes.begin(), input.axes.end(), dimension) == input.axes.end()) {
      input.unreduced = dimension;
      input.strides = Strides::row_major;  // pieces of one element do not tell how the whole lies
    }
  }
  program_.inputs.push_back(input);
  return input.slot;
}

// A new input, or a view of one.
int CallMaker::viewed(const Sizes& sizes, at::ScalarType dtype, Elements elements, int64_t below) {
  if (!dice_.chance(habits_.view_percent)) return add_input(sizes, dtype, elements, below);
  const auto call = [&](const char* name, const char* overload, int slot, std::vector<at::IValue> constants) {
    Statement statement{.op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload)};
    statement.arguments.push_back({Argument::Kind::tensor, {slot}});
    for (auto& value : constants) statement.arguments.push_back({Argument::Kind::constant, {}, std::move(value)});
    statement.result = program_.next_slot;
    program_.next_slot += Program::kResults;
    views_.push_back(statement);
    return statement.result;
  };
  const auto rank = static_cast<int64_t>(sizes.size());
  Sizes base = sizes;
  const int64_t choice = dice_.below(6);
  if (choice == 0 && rank >= 2) {
    const int64_t a = dice_.below(rank), b = dice_.below(rank);
    std::swap(base[static_cast<size_t>(a)], base[static_cast<size_t>(b)]);
    return call("aten::transpose", "int", add_input(base, dtype, elements, below), {a, b});
  }
  if (choice == 1 && rank >= 1) {
    const int64_t a = dice_.below(rank), step = dice_.between(1, 2), begin = dice_.below(2);
    auto& size = base[static_cast<size_t>(a)];
    const int64_t end = begin + (size == 0 ? 0 : (size - 1) * step + 1);
    size = end + dice_.below(2);
    return call("aten::slice", "Tensor", add_input(base, dtype, elements, below), {a, begin, end, step});
  }
  if (choice == 2 && rank >= 1 && elements != Elements::definite) {
    base[static_cast<size_t>(dice_.below(rank))] = 1;
    return call("aten::expand", "", add_input(base, dtype, elements, below),
                {c10::List<int64_t>(at::IntArrayRef(sizes)), false});
  }
  if (choice == 3 && at::isComplexType(dtype))
    return call("aten::conj", "", add_input(base, dtype, elements, below), {});
  if (choice == 4) {
    const int64_t a = dice_.between(0, rank);
    base.insert(base.begin() + a, dice_.between(1, 3));
    const int64_t index = dice_.below(base[static_cast<size_t>(a)]);
    if (elements == Elements::definite) return add_input(sizes, dtype, elements, below);
    return call("aten::select", "int", add_input(base, dtype, elements, below), {a, index});
  }
  if (choice == 5) return call("aten::detach", "", add_input(base, dtype, elements, below), {});
  return add_input(sizes, dtype, elements, below);
}

int CallMaker::new_operand(const Word& word) {
  at::ScalarType dtype = word.dtype.value_or(first_slot_ >= 0 && dice_.chance(80) ? first_dtype_ : habits_.dtype);
  if (!word.dtype && first_slot_ >= 0 && !at::isFloatingType(first_dtype_) && dice_.chance(30)) dtype = habits_.dtype;
  static const std::vector<at::ScalarType> kOthers{
      at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kBool, at::kComplexDouble, at::kByte};
  if (!word.dtype && dice_.chance(5)) dtype = dice_.pick(kOthers);
  return viewed(sizes_of(word), dtype, word.elements, word.below);
}

int CallMaker::tensor(const c10::Argument& argument, bool written) {
  const bool first = first_slot_ < 0;
  auto word = next_word();
  const bool optional = argument.real_type()->str() == "Tensor?";
  if (!word && optional && !first && (!words_.empty() || dice_.chance(50))) return -1;
  if (word && word->absent) return -1;
  if (!word) {
    word.emplace();
    Sizes sizes;
    if (first) {
      const int64_t rank = dice_.pick<int64_t>({0, 1, 1, 2, 2, 2, 3, 3, 4});
      word->letters = std::string("ijklm").substr(0, static_cast<size_t>(rank));
    } else {
      letters_.clear();
      sizes = like_first();
      for (size_t i = 0; i < sizes.size(); ++i) {
        word->letters += static_cast<char>('i' + i);
        letters_[word->letters.back()] = sizes[i];
      }
    }
    if (argument.name().find("ind") == 0 || argument.name() == "mask")
      word->dtype = argument.name() == "mask" ? at::kBool : at::kLong;
  }
  int slot = dice_.chance(habits_.reuse_percent) ? matching_slot(*word) : -1;
  if (slot < 0) slot = new_operand(*word);
  if (first) {
    first_slot_ = slot;
    if (const auto found = slots_.find(slot); found != slots_.end()) {
      first_ = found->second.sizes().vec();
      first_dtype_ = found->second.scalar_type();
    } else {
      first_.clear();
      for (const char letter : word->letters) first_.push_back(size_of(letter));
      first_dtype_ = word->dtype.value_or(habits_.dtype);
    }
  }
  (void)written;
  return slot;
}

Argument CallMaker::tensor_list(const c10::Argument& argument, bool) {
  Argument list{Argument::Kind::tensors};
  const std::string& name = argument.name();
  if (name == "indices") {
    if (auto word = next_word()) list.slots.push_back(new_operand(*word));
    if (first_.size() > list.slots.size() && dice_.chance(25)) list.slots.insert(list.slots.begin(), -1);
    return list;
  }
  const bool optional = argument.real_type()->str() == "Tensor?[]";
  if (optional) return list;
  Word word;
  if (auto given = next_word())
    word = *given;
  else if (first_slot_ >= 0 && !first_.empty())
    for (size_t i = 0; i < first_.size(); ++i) word.letters += static_cast<char>('i' + i);
  else
    word.letters = std::string("ijk").substr(0, static_cast<size_t>(dice_.between(1, 3)));
  const int64_t count = op_ == "einsum" || op_ == "meshgrid" || op_ == "cartesian_prod" ? 2 : dice_.between(1, 3);
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0)
      if (auto given = next_word()) word = *given;
    int slot = dice_.chance(habits_.reuse_percent) ? matching_slot(word) : -1;
    if (slot < 0) slot = new_operand(word);
    list.slots.push_back(slot);
    if (first_slot_ >= 0) continue;
    first_slot_ = slot;
    for (const char letter : word.letters) first_.push_back(size_of(letter));
    first_dtype_ = habits_.dtype;
  }
  return list;
}

// Of a list there is one for each tensor of the first list.
Argument CallMaker::out_tensors(const Statement& statement) {
  Argument list{Argument::Kind::tensors};
  const auto& arguments = statement.arguments;
  const auto first = std::find_if(arguments.begin(), arguments.end(),
                                  [](const Argument& a) { return a.kind == Argument::Kind::tensors; });
  const size_t count = first == arguments.end() ? static_cast<size_t>(dice_.between(1, 3)) : first->slots.size();
  for (size_t i = 0; i < count; ++i) list.slots.push_back(out_tensor());
  return list;
}

// The second of several is often one of indices.
int CallMaker::out_tensor() {
  const bool indices = !std::exchange(first_out_, false) && dice_.chance(50);
  const at::ScalarType dtype = indices ? at::kLong : first_dtype_;
  const int slot = dice_.chance(50) ? add_input({0}, dtype) : add_input(first_, dtype);
  Input& input = program_.inputs.back();
  input.plain = false;
  input.requires_grad = input.requires_grad && dice_.chance(5);
  if (input.sizes == Sizes{0}) input.axes = {-1}, input.unreduced = -1;
  return slot;
}

// --- other arguments -------------------------------------------------------------------------------------------------

std::optional<at::IValue> CallMaker::constant(const c10::Argument& argument) {
  if (auto value = chosen(argument)) return value;
  if (argument.default_value() && dice_.chance(50)) return *argument.default_value();
  auto value = of_type(argument.real_type(), argument.name());
  return value || !argument.default_value() ? value : argument.default_value();
}

// What Operands::others says.
std::optional<at::IValue> CallMaker::chosen(const c10::Argument& argument) {
  if (!operands_ || operands_->others.empty()) return {};
  for (const std::string& entry : split(operands_->others, ' ')) {
    const size_t equals = entry.find('=');
    if (entry.substr(0, equals) != argument.name()) continue;
    const std::string text = dice_.pick(split(entry.substr(equals + 1), '|'));
    at::IValue value = parse(text);
    const std::string type = argument.real_type()->str();
    if (value.isString() && type.find("str") == std::string::npos) return {};
    if (value.isIntList() && type.find("[]") == std::string::npos) return {};
    if (value.isInt() && type.find("[]") != std::string::npos) return c10::List<int64_t>({value.toInt()});
    if (value.isIntList() && type.find("float") != std::string::npos) return {};
    if (value.isInt() && type.find("float") == 0) return static_cast<double>(value.toInt());
    if (value.isString() && type.find("str") != std::string::npos) return value;
    if (value.isNone() && type.find('?') == std::string::npos) return {};
    if (value.isIntList() && habits_.odd && dice_.chance(5)) return {};
    return value;
  }
  return {};
}

at::IValue CallMaker::parse(std::string_view text) {
  if (text == "none") return {};
  if (text == "true" || text == "false") return text == "true";
  if (text[0] == '\'') return std::string(text.substr(1, text.size() - 2));
  if (text[0] == '[') {
    c10::List<int64_t> list;
    if (text.size() > 2)
      for (const std::string& entry : split(text.substr(1, text.size() - 2), ',')) list.push_back(parse(entry).toInt());
    return list;
  }
  if (std::isalpha(text[0])) return size_of(text[0]);
  if (text.find('.') != std::string_view::npos) return std::stod(std::string(text));
  return static_cast<int64_t>(std::stoll(std::string(text)));
}

std::optional<at::IValue> CallMaker::of_type(const c10::TypePtr& type, const std::string& name) {
  const std::string text = type->str();
  if (text.back() == '?' || type->kind() == c10::TypeKind::OptionalType) {
    const bool seldom = name == "dtype" || name == "layout" || name == "device" || name == "pin_memory" ||
                        name == "generator" || name == "memory_format" || name == "names";
    if (name == "dtype" && dice_.chance(15)) return static_cast<int64_t>(dice_.pick({at::kDouble, at::kFloat}));
    if (seldom || dice_.chance(40)) return at::IValue();
    auto value = of_type(type->castRaw<c10::OptionalType>()->getElementType(), name);
    return value ? value : std::optional<at::IValue>(at::IValue());
  }
  switch (type->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: return integer(name);
    case c10::TypeKind::FloatType: return name == "eps" ? 1e-5 : dice_.pick({0.5, 0.25, 1.0, 2.0});
    case c10::TypeKind::NumberType: return number(name);
    case c10::TypeKind::BoolType: return dice_.chance(50);
    case c10::TypeKind::ScalarTypeType:
      return static_cast<int64_t>(dice_.pick({at::kDouble, at::kFloat, at::kLong, at::kBFloat16, at::kBool}));
    case c10::TypeKind::MemoryFormatType: return static_cast<int64_t>(at::MemoryFormat::Contiguous);
    default: break;
  }
  if (text == "int[]" || text == "SymInt[]") return c10::List<int64_t>(at::IntArrayRef(integers(name)));
  if (text == "Scalar[]" || text == "number[]") {
    c10::List<at::Scalar> list;
    return {};
  }
  return {};
}

int64_t CallMaker::axis() {
  const auto rank = static_cast<int64_t>(first_.size());
  if (habits_.odd && dice_.chance(15))
    return dice_.pick<int64_t>({rank, -rank - 1, 9, 40, 2000000000, -7, int64_t{1} << 40});
  return rank == 0 ? dice_.between(-1, 0) : dice_.between(-rank, rank - 1);
}

int64_t CallMaker::integer(const std::string& name) {
  if (name.find("dim") != std::string::npos || name.find("axis") != std::string::npos || name == "source" ||
      name == "destination")
    return axis();
  if (name == "reduction") return dice_.between(0, 2);
  if (name == "start" || name == "end" || name == "index" || name == "offset" || name == "diagonal" ||
      name == "storage_offset")
    return dice_.between(-2, 3);
  if (name == "dtype") return static_cast<int64_t>(dice_.pick({at::kDouble, at::kFloat, at::kLong, at::kHalf}));
  if (habits_.odd && dice_.chance(8)) return dice_.pick<int64_t>({-1, 0, 100});
  return dice_.between(1, 3);
}

std::vector<int64_t> CallMaker::integers(const std::string& name) {
  const auto rank = static_cast<int64_t>(first_.size());
  std::vector<int64_t> list;
  if (op_.find("permute") != std::string::npos) {
    for (int64_t i = 0; i < rank; ++i) list.push_back(i);
    for (int64_t i = rank - 1; i > 0; --i)
      std::swap(list[static_cast<size_t>(i)], list[static_cast<size_t>(dice_.below(i + 1))]);
    return list;
  }
  if (name.find("dim") != std::string::npos || name.find("axes") != std::string::npos || name == "source" ||
      name == "destination") {
    for (int64_t i = 0; i < rank; ++i)
      if (dice_.chance(45)) list.push_back(dice_.chance(50) ? i : i - rank);
    if (habits_.odd && dice_.chance(10)) list.push_back(axis());
    return list;
  }
  if (name == "size" || name == "shape" || name == "sizes") {
    if (op_.find("view") == std::string::npos && op_.find("reshape") == std::string::npos) return first_;
    switch (dice_.below(4)) {
      case 0: return {-1};
      case 1:
        list = first_;
        list.insert(list.begin() + dice_.between(0, rank), 1);
        return list;
      case 2:
        if (rank >= 2) {
          list.push_back(-1);
          list.insert(list.end(), first_.begin() + 2, first_.end());
          return list;
        }
        return first_;
      default:
        for (const int64_t size : first_)
          if (size == 4 || size == 6 || size == 8)
            list.insert(list.end(), {2, size / 2});
          else
            list.push_back(size);
        return list;
    }
  }
  const int64_t count = std::max<int64_t>(1, rank);
  for (int64_t i = 0; i < count; ++i) list.push_back(dice_.between(name == "shifts" ? -2 : 0, 2));
  return list;
}

at::IValue CallMaker::number(const std::string& name) {
  if (name == "min" || name == "min_val") return -0.5;
  if (name == "max" || name == "max_val") return 0.5;
  if (name == "eps") return 1e-5;
  if (!at::isFloatingType(habits_.dtype) && !at::isComplexType(habits_.dtype)) return dice_.between(1, 3);
  if (dice_.chance(30)) return dice_.pick<int64_t>({0, 1, 2, 3, -1});
  return dice_.pick({0.5, 0.25, 1.0, 2.0, -1.5});
}

}  // namespace tutti::fuzz
