// The ops that programs are made of.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace tutti::fuzz {

// An op with its overloads; its in-place and out= forms are ops of their own.
struct OpFamily {
  std::string name;
  std::vector<c10::OperatorHandle> overloads;
  int weight = 1;
};

struct CatalogueOptions {
  std::string only = {};  // only families whose name has this
};

// All of LibTorch's whose arguments can be made up.
std::vector<OpFamily> catalogue(const CatalogueOptions& options = {});

}  // namespace tutti::fuzz
