// A function of one tensor, held to what it gives of the plain one.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/test_devices.h"
#include "tutti/core/error.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/separate_parts.h"

namespace tutti::rules {

inline Mesh line_of(int devices, bool merge, const std::string& name = "") {
  return Mesh({{"x", devices}}, test_devices(devices), {.merge = merge, .name = name});
}

// The axes are "x" or "-".
inline Layout layout_on(const Mesh& mesh, std::vector<std::string> axes) {
  for (std::string& axis : axes)
    if (axis == "-") axis = kUnsharded;
  return Layout(axes, mesh);
}

inline const std::vector<std::string> kCut{"x"}, kRowsCut{"x", "-"}, kColumnsCut{"-", "x"};

// How a call ended: with a value, with LibTorch's own error, or with another.
struct Ending {
  at::Tensor value;
  std::string error;
};

inline Ending ending_of(const std::function<at::Tensor()>& f) {
  try {
    return {gather(f().detach()), ""};
  } catch (const c10::IndexError&) {
    return {{}, "IndexError"};
  } catch (const c10::Error&) {
    return {{}, "c10::Error"};
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

inline void expect_same(const Ending& seen, const Ending& expected, double tolerance) {
  EXPECT_EQ(seen.error, expected.error);
  if (!seen.value.defined() || !expected.value.defined()) return;
  EXPECT_EQ(seen.value.sizes(), expected.value.sizes());
  EXPECT_EQ(seen.value.scalar_type(), expected.value.scalar_type());
  if (seen.value.sizes() != expected.value.sizes()) return;
  const auto wide = [](const at::Tensor& t) {
    return t.resolve_conj().resolve_neg().to(at::toComplexType(at::kDouble));
  };
  EXPECT_TRUE(torch::allclose(wide(seen.value), wide(expected.value), tolerance, tolerance, /*equal_nan=*/true))
      << seen.value << "\nexpected\n"
      << expected.value;
}

using TensorFunction = std::function<at::Tensor(const at::Tensor&)>;

// Of `x` in these axes on a line of devices, in merged and in separate buffers, and in separate ones of which no small
// parts are joined.
inline void expect_like_one_device(const at::Tensor& on_host, const std::vector<std::string>& axes,
                                   const TensorFunction& f, int devices = 2, double tolerance = 1e-6) {
  const at::Tensor x = on_host.to(test_torch_device());
  const Ending expected = ending_of([&] { return f(x.detach().clone()); });
  for (const std::string where : {"merged", "separate", "in parts"}) {
    SCOPED_TRACE(where);
    const Mesh mesh = line_of(devices, where == "merged", where);  // of a name: plans of one are not the other's
    std::optional<SeparateParts> parts;
    if (where == "in parts") parts.emplace();
    expect_same(ending_of([&] { return f(distribute_tensor(x, layout_on(mesh, axes))); }), expected, tolerance);
  }
}

}  // namespace tutti::rules
