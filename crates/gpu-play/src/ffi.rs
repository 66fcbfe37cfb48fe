//! Binding to the C++ function that runs a kernel.
#![allow(unsafe_code)]

use super::Manner;
use std::ffi::{CString, c_char, c_int, c_void};

#[repr(C)]
struct PlayBuffer {
    bytes: *mut u8,
    len: usize,
}

unsafe extern "C" {
    fn shardpack_play_launch(
        name: *const c_char,
        grid: *const u32,
        block: *const u32,
        params: *const c_void,
        params_len: usize,
        buffers: *const PlayBuffer,
        count: usize,
        backward: u32,
        poison: u32,
        message: *mut c_char,
        message_len: usize,
    ) -> c_int;
}

pub(super) fn launch<'a>(
    kernel: &str,
    grid: [u32; 3],
    block: [u32; 3],
    params: &[u8],
    buffers: impl Iterator<Item = &'a mut [u8]>,
    manner: Manner,
) -> Result<(), String> {
    let name = CString::new(kernel).map_err(|_| "the name of the kernel contains a NUL".to_owned())?;
    let buffers: Vec<_> = buffers.map(|b| PlayBuffer { bytes: b.as_mut_ptr(), len: b.len() }).collect();
    // The copy has the alignment of the struct that the C++ side reads.
    let mut aligned = vec![0_u64; params.len().div_ceil(8)];
    for (to, from) in aligned.iter_mut().zip(params.chunks(8)) {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(from) {
            *to = *from;
        }
        *to = u64::from_ne_bytes(word);
    }
    let mut message = [0_u8; 512];
    // SAFETY: the pointers are valid for their lengths during the call. The kernel reads `params.len()` bytes
    // of parameters; the callee checks this length. It touches only `buffers`, which are borrowed
    // exclusively, because each access is checked against them.
    let failed = unsafe {
        shardpack_play_launch(
            name.as_ptr(),
            grid.as_ptr(),
            block.as_ptr(),
            aligned.as_ptr().cast(),
            params.len(),
            buffers.as_ptr(),
            buffers.len(),
            u32::from(manner.backward),
            u32::from(manner.poison),
            message.as_mut_ptr().cast(),
            message.len(),
        )
    };
    if failed == 0 {
        return Ok(());
    }
    let end = message.iter().position(|&b| b == 0).unwrap_or(message.len());
    Err(String::from_utf8_lossy(message.get(..end).unwrap_or_default()).into_owned())
}
