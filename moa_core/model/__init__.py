"""The target model: layers, KV cache, attention."""
