-- Gives a thread limits.
-- args: id, mark, limits, own: they are its own; otherwise a thread that has its own keeps them.
-- Gives 1, or 0 if there is no such thread.
local now = clock()
local facts = open_thread(KEYS[1], args.id)
if not is_alive(facts, now) then return 0 end
if args.own or facts.own == 0 then
  set_limits(facts, args.limits, args.own)
  renew(facts, now)
  settle(facts, open_bucket(), now)
end
return 1
