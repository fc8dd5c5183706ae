-- How many namespaces of a bucket wait for the sweeper.
return call('ZCOUNT', expiring_key(), '-inf', text(clock_us()))
