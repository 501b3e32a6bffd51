"""Home Assistant's core with its MQTT integration, without a user interface: `home.py DIRECTORY PORT USER PASSWORD OWN_PORT`.

The integration is added by its own dialogue. Then each line of standard input is a call of a service, `DOMAIN SERVICE ENTITY`, and each
change of a state is a line of standard output, `ENTITY STATE`.
"""

import asyncio
import sys
import threading

from homeassistant import bootstrap, core, loader, runner
from homeassistant.const import EVENT_STATE_CHANGED


async def add_mqtt(hass, port, user, password):
    """What a person enters in the dialogue *Add integration*."""
    flow = await hass.config_entries.flow.async_init("mqtt", context={"source": "user"})
    entered = {"broker": "127.0.0.1", "port": int(port), "username": user, "password": password}
    done = await hass.config_entries.flow.async_configure(flow["flow_id"], entered)
    if done["type"] != "create_entry":
        raise SystemExit(f"the integration was not added: {done['errors']}")


def read_calls(hass, ended):
    for line in sys.stdin:
        domain, service, entity = line.split()
        call = hass.services.async_call(domain, service, {"entity_id": entity}, blocking=True)
        asyncio.run_coroutine_threadsafe(call, hass.loop).result()
    hass.loop.call_soon_threadsafe(ended.set)


@core.callback
def print_state(event):
    state = event.data["new_state"]
    print(event.data["entity_id"], state.state if state else "removed", flush=True)


async def main(folder, port, user, password, own_port):
    # The integrations of the user interface need a package of 60 MB, and MQTT works without them.
    bootstrap.DEFAULT_INTEGRATIONS = set()
    hass = core.HomeAssistant(folder)
    hass.config.skip_pip = True
    loader.async_setup(hass)
    if await bootstrap.async_from_config_dict({"http": {"server_host": "127.0.0.1", "server_port": int(own_port)}}, hass) is None:
        raise SystemExit("the core was not set up")
    hass.bus.async_listen(EVENT_STATE_CHANGED, print_state)
    await add_mqtt(hass, port, user, password)
    await hass.async_start()
    print("started", flush=True)
    ended = asyncio.Event()
    threading.Thread(target=read_calls, args=(hass, ended), daemon=True).start()
    await ended.wait()
    await hass.async_stop()


asyncio.set_event_loop_policy(runner.HassEventLoopPolicy(debug=False))
asyncio.run(main(*sys.argv[1:]))
