from demo.device.vendor import fetch

fetch()
