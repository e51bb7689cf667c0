"""Texts that several refusals share, and the form of a case."""

Case = tuple[str, str, str, str, str]
"""Old text, new text, problem, fragment on the line that is named, hint."""

SRAM = "size: 256 KiB"
SIZE_HINT = "write a size such as `384 KiB` (units: B, kB, MB, GB, KiB, MiB, GiB)"
DTYPES = "known: bf16, bool, f16, f32, f64, i16, i32, i64, i8, u16, u32, u64, u8"
