//! A closed pod's device, as it is in its namespace.

use crate::error::HostError;
use crate::netlink::{Conversation, read_addresses, read_devices};
use crate::sandbox::{Sandbox, is_of_link};
use mercato_machine::Interface;

/// The pod's device as it is now, in the namespace of this thread. A second one would be a way out
/// that no rule sees.
pub(crate) fn interface(sandbox: &Sandbox) -> Result<Interface, HostError> {
    let reading = |source| HostError::Read { what: "devices of a pod", source };
    let gone = || HostError::SandboxGone { path: sandbox.path.clone() };
    let mut kernel = Conversation::about_routing().map_err(reading)?;
    let devices = read_devices(&mut kernel).map_err(reading)?;
    let is_other = |index: u32| index != sandbox.device;
    let mut up = devices.iter().filter(|device| device.up && !device.is_loopback);
    if let Some(device) = up.find(|device| is_other(device.index)) {
        let (path, device) = (sandbox.path.clone(), device.name.clone());
        return Err(HostError::SecondDevice { path, device });
    }
    let device = devices.into_iter().find(|device| device.index == sandbox.device);
    let device = device.ok_or_else(gone)?;
    let addresses = read_addresses(&mut kernel).map_err(reading)?;
    let own = addresses.iter().filter(|address| address.device == sandbox.device);
    let of_link = own.map(|address| address.net.addr()).filter(|one| is_of_link(*one)).collect();
    Ok(Interface { name: device.name, mac: device.mac.ok_or_else(gone)?, of_link })
}
