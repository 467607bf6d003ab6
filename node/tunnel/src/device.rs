//! A TUN device with segmentation offloads: one read brings up to 64 KiB of one flow, one write
//! gives as much. The one module with unsafe code: four calls of the kernel that no library here
//! wraps.

#![allow(unsafe_code, reason = "ioctl on /dev/net/tun; each call says why it is sound")]

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use mercato_session::{OFFLOAD_HEADER_BYTES, OffloadHeader};
use thiserror::Error;

use crate::offloads::{Offload, OffloadState};
use crate::segments::SegmentWriter;

const PATH: &str = "/dev/net/tun";

/// What a device leaves to us (`TUN_F_...`, linux/if_tun.h). Large packets need partial checksums,
/// which are asked for first; a kernel before Linux 6.2 knows no UDP.
const OFFLOADS: [(Offload, u32); 4] = [
    (Offload::Checksum, 0x01),
    (Offload::Tso4, 0x02),
    (Offload::Tso6, 0x04),
    (Offload::Uso, 0x20 | 0x40),
];

nix::ioctl_write_ptr_bad!(set_interface, nix::request_code_write!(b'T', 202, 4), libc::ifreq);
nix::ioctl_write_int_bad!(set_offload, nix::request_code_write!(b'T', 208, 4));
nix::ioctl_write_ptr_bad!(set_header_size, nix::request_code_write!(b'T', 216, 4), libc::c_int);

/// One queue of a TUN device. The device goes with the last of them.
#[derive(Debug)]
pub struct Device {
    file: File,
    name: String,
    offloads: OffloadState,
    writer: SegmentWriter,
}

/// Why there is no device.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// Its name is longer than the kernel takes, or has a zero byte.
    #[error("{0:?} is no name of a device: at most 15 bytes, none of them zero")]
    Name(String),
    /// The file of all TUN devices cannot be opened.
    #[error("cannot open {PATH}: {source}; {}", how_to_open(.source))]
    Open {
        /// What the kernel says to that.
        source: io::Error,
    },
    /// The kernel refuses to make this one.
    #[error("cannot make the device {name}: {source}; {}", how_to_make(.source))]
    Make {
        /// What it would be called.
        name: String,
        /// The kernel's word.
        source: io::Error,
    },
}

/// What to do where the file is not there, or may not be opened.
fn how_to_open(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "let the daemon's user, and the container that it runs in, use that device"
        }
        Some(_) | None => {
            "load its module (modprobe tun), and where the daemon runs in a container give it the \
             device (in a pod by a volume: hostPath: {path: /dev/net/tun})"
        }
    }
}

/// What to do where the kernel makes no device.
fn how_to_make(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "the daemon needs CAP_NET_ADMIN on the node's network: start it as root, or in a pod \
             with hostNetwork: true and securityContext.capabilities.add: [NET_ADMIN]"
        }
        Some(libc::EBUSY) => "a device has that name already: is another daemon running?",
        Some(_) | None => {
            "the file that was opened is no TUN device, or the kernel has none (modprobe tun)"
        }
    }
}

impl Device {
    /// Makes a device with this name, in the network namespace of this thread, with so many
    /// queues, and with those of the offloads that the kernel knows. It is down, and has no
    /// address.
    ///
    /// # Errors
    /// Without the right to, or when the name is taken.
    pub fn create(
        name: &str,
        queues: usize,
        offloads: &OffloadState,
    ) -> Result<Vec<Self>, DeviceError> {
        assert!(queues > 0, "a device without a queue is none");
        let made: Vec<Self> = (0..queues)
            .map(|_| Self::open(name, queues > 1, offloads.clone()))
            .collect::<Result<_, _>>()?;
        made[0].set_offloads();
        Ok(made)
    }

    fn open(name: &str, is_one_of_many: bool, offloads: OffloadState) -> Result<Self, DeviceError> {
        let path =
            || OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(PATH);
        let file = path().map_err(|source| DeviceError::Open { source })?;
        let request = request(name, is_one_of_many)?;
        let make =
            |error: nix::Error| DeviceError::Make { name: name.to_owned(), source: error.into() };
        let size = OFFLOAD_HEADER_BYTES as libc::c_int;
        // SAFETY: the descriptor is of /dev/net/tun and open; the kernel reads one `ifreq`, then
        // one `int`, both of which live until the calls return.
        unsafe {
            set_interface(file.as_raw_fd(), &raw const request).map_err(make)?;
            set_header_size(file.as_raw_fd(), &raw const size).map_err(make)?;
        }
        let writer = SegmentWriter::default();
        Ok(Self { file, name: name.to_owned(), offloads, writer })
    }

    /// Asks for one offload after the other. What the kernel refuses is given up.
    fn set_offloads(&self) {
        let mut asked = 0;
        for (offload, bits) in OFFLOADS {
            if !self.offloads.contains(offload) {
                continue;
            }
            if offload != Offload::Checksum && !self.offloads.contains(Offload::Checksum) {
                self.offloads.give_up(offload, &"it needs partial checksums");
                continue;
            }
            // SAFETY: the argument is a number, not an address.
            match unsafe { set_offload(self.file.as_raw_fd(), (asked | bits) as libc::c_int) } {
                Ok(_) => asked |= bits,
                Err(error) => self.offloads.give_up(offload, &error),
            }
        }
    }

    /// A file in the place of a device, which reads and writes whole packets with their headers.
    #[cfg(test)]
    pub(crate) fn of_file(file: File) -> Self {
        let (name, offloads) = ("file".to_owned(), OffloadState::new(crate::Offloads::NONE));
        Self { file, name, offloads, writer: SegmentWriter::default() }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads a packet with the header in front of it. `WouldBlock` if there is none.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(into)
    }

    /// Writes a packet: whole, where the device takes it so, and else in pieces.
    ///
    /// # Errors
    /// When the device is down or gone, or does not take such a packet.
    pub fn write(&mut self, header: OffloadHeader, packet: &mut [u8]) -> io::Result<()> {
        let mut file = &self.file;
        self.writer.write(&self.offloads, header, packet, |header, packet| {
            let written = file.write_vectored(&[IoSlice::new(header), IoSlice::new(packet)])?;
            let is_whole = written == header.len() + packet.len();
            if is_whole { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
        })
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn request(name: &str, is_one_of_many: bool) -> Result<libc::ifreq, DeviceError> {
    let refused = || DeviceError::Name(name.to_owned());
    let text = CString::new(name).map_err(|_| refused())?;
    let bytes = text.as_bytes_with_nul();
    if bytes.len() > libc::IFNAMSIZ || bytes.len() < 2 {
        return Err(refused());
    }
    // SAFETY: all zero is a valid `ifreq`: bytes, numbers and null pointers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let queue = if is_one_of_many { libc::IFF_MULTI_QUEUE } else { 0 };
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | queue;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_no_device_hears_what_to_do() {
        let open = |number| {
            let source = io::Error::from_raw_os_error(number);
            DeviceError::Open { source }.to_string()
        };
        let make = |number| {
            let source = io::Error::from_raw_os_error(number);
            DeviceError::Make { name: "mercato0".to_owned(), source }.to_string()
        };
        for (said, part) in [
            (open(libc::ENOENT), "modprobe tun"),
            (open(libc::EACCES), "let the daemon's user"),
            (make(libc::EPERM), "CAP_NET_ADMIN"),
            (make(libc::EBUSY), "another daemon"),
            (make(libc::ENOTTY), "no TUN device"),
        ] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn a_name_that_the_kernel_does_not_take_is_refused() {
        for name in ["", "a-name-of-16-byte", "zero\0"] {
            assert!(matches!(request(name, false), Err(DeviceError::Name(_))), "{name:?}");
        }
        assert!(request("mercato0", true).is_ok());
    }
}
