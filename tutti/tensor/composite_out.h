#pragma once

namespace tutti {

// Registers the out= forms of ops that LibTorch composes of others. Called once.
void register_composite_out();

}  // namespace tutti
