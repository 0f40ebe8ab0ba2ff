"""Tells of the battery of a laptop on a bus, as UPower does: `python3 upower.py ADDRESS PER_CENT`.

Needs Debian's `python3-dbus` and `python3-gi`, and runs with the system's own Python.
"""

from __future__ import annotations

import sys

import dbus
import dbus.bus
import dbus.mainloop.glib
import dbus.service
from gi.repository import GLib

_NAME = "org.freedesktop.UPower"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_BATTERY, _DISCHARGING = 2, 2  # a kind of device, a state


class Told(dbus.service.Object):
    """An object with properties that never change."""

    def __init__(self, bus: dbus.bus.BusConnection, path: str, told: dict[str, object]) -> None:
        super().__init__(bus, path)
        self._told = told

    @dbus.service.method(_PROPERTIES, in_signature="ss", out_signature="v")
    def Get(self, _interface: str, name: str) -> object:  # noqa: N802 -- its name on the bus
        """Return a property."""
        return self._told[name]

    @dbus.service.method(_PROPERTIES, in_signature="s", out_signature="a{sv}")
    def GetAll(self, _interface: str) -> dict[str, object]:  # noqa: N802
        """Return all of them."""
        return self._told

    @dbus.service.method(_NAME, out_signature="o")
    def GetDisplayDevice(self) -> str:  # noqa: N802
        """Name what a desktop shows."""
        return f"/{_NAME.replace('.', '/')}/devices/DisplayDevice"

    @dbus.service.method(_NAME, out_signature="ao")
    def EnumerateDevices(self) -> list[str]:  # noqa: N802
        """Name all devices."""
        return [f"/{_NAME.replace('.', '/')}/devices/battery_BAT0"]


def main() -> None:
    """Tell of it until the bus ends."""
    dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
    bus = dbus.bus.BusConnection(sys.argv[1])
    name = dbus.service.BusName(_NAME, bus)
    level = dbus.Double(sys.argv[2])
    battery = {
        "Type": dbus.UInt32(_BATTERY), "State": dbus.UInt32(_DISCHARGING), "Percentage": level,
        "IsPresent": dbus.Boolean(1), "TimeToEmpty": dbus.Int64(90 * level),
        "TimeToFull": dbus.Int64(0), "PowerSupply": dbus.Boolean(1), "IconName": "battery",
    }  # fmt: skip
    top = f"/{_NAME.replace('.', '/')}"
    daemon = {"DaemonVersion": "1.90.0", "OnBattery": dbus.Boolean(1)}
    objects = [
        Told(bus, top, daemon),
        *(Told(bus, f"{top}/devices/{one}", battery) for one in ("DisplayDevice", "battery_BAT0")),
    ]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    GLib.MainLoop().run()
    del name, objects


main()
