#pragma once

namespace tutti {

// Registers LSTM, GRU and RNN: their first states follow the batch of the input. Called once.
void register_recurrences();

}  // namespace tutti
