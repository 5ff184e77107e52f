// Makes up calls: the op's schema says of which kinds its arguments are, operands.h what it asks of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operands.h"
#include "program.h"
#include "tests/support/dice.h"

namespace tutti::fuzz {

// What the calls of a program have in common.
struct Habits {
  at::ScalarType dtype = at::kFloat;
  bool gradients = true;
  int reuse_percent = 60;  // how often an operand is an earlier result
  int view_percent = 25;   // how often a new operand is a view
  bool odd = false;        // also what LibTorch is likely to refuse
  bool huge = false;       // some operands have thousands of elements
};

class CallMaker {
 public:
  // Adds inputs, and views of them, to `program`. `slots`: the plain values so far.
  CallMaker(Dice& dice, Program& program, const std::map<int, Tensor>& slots, const Habits& habits);

  // Nothing where the op has an argument of a kind that cannot be made up.
  std::optional<Statement> make(const c10::OperatorHandle& op);
  // A new input of these sizes; its slot.
  int add_input(const Sizes& sizes, at::ScalarType dtype, Elements elements = Elements::any, int64_t below = 2);
  // The statements that make views of new inputs, to be run before the call.
  std::vector<Statement> take_views() { return std::move(views_); }

 private:
  struct Word;  // a parsed word of Operands::tensors
  void choose_words();
  int tensor(const c10::Argument& argument, bool written);
  Argument tensor_list(const c10::Argument& argument, bool written);
  int out_tensor();
  Argument out_tensors(const Statement& statement);
  std::optional<Word> next_word();
  int matching_slot(const Word& word);
  int new_operand(const Word& word);
  int viewed(const Sizes& sizes, at::ScalarType dtype, Elements elements, int64_t below);
  bool bind(const Word& word, at::IntArrayRef sizes);
  Sizes sizes_of(const Word& word);
  Sizes like_first();
  int64_t size_of(char letter);
  std::vector<int> random_layout(const Sizes& sizes);

  std::optional<at::IValue> constant(const c10::Argument& argument);
  std::optional<at::IValue> chosen(const c10::Argument& argument);
  at::IValue parse(std::string_view text);
  std::optional<at::IValue> of_type(const c10::TypePtr& type, const std::string& name);
  int64_t integer(const std::string& name);
  std::vector<int64_t> integers(const std::string& name);
  at::IValue number(const std::string& name);
  int64_t axis();

  Dice& dice_;
  Program& program_;
  const std::map<int, Tensor>& slots_;
  const Habits& habits_;
  std::string op_;
  const Operands* operands_ = nullptr;
  std::vector<std::string> words_;
  size_t next_word_ = 0;
  std::map<char, int64_t> letters_;
  Sizes first_;
  int first_slot_ = -1;
  bool first_out_ = true;
  at::ScalarType first_dtype_ = at::kFloat;
  std::vector<Statement> views_;
};

}  // namespace tutti::fuzz
