// Programs may open both namespaces.
#include <gtest/gtest.h>

#include "tutti/collectives/local/host_reduction.h"
#include "tutti/keras/losses/mean_squared_error.h"

using namespace tutti;
using namespace tutti::keras;

TEST(Reduction, IsKerassWhereTuttiIsOpenToo) {
  EXPECT_EQ(losses::MeanSquaredError({.reduction = Reduction::sum}).reduction(), Reduction::sum);
}
